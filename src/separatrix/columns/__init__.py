"""Any input becomes codes and levels here, once: columns, groups, files, frames."""
