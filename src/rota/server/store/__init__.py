"""The controller's durable state: one database, two writers, any number of readers.

`rows` what is stored, `store` the one class everything goes through.  Import them by name.
"""
