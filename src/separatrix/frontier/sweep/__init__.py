"""A grid of trainings (dataset × method × λ × fold × seed), stored in one folder.

`jobs` cuts the grid into stacks and trains one, `runner` works on what has no final record yet,
`store` keeps the records. Running again resumes.
"""
