"""Any number of labels: rules from posteriors, with or without the group."""
