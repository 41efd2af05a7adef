"""The steps of the migration, each as a user would write it."""
