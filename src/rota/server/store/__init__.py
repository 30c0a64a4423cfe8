"""What the controller knows, durably: one database, two writers, any number of readers.

`rows` what is stored, `store` the one class everything goes through; `blob` values as bytes.  Import them by
name: a policy process needs `blob` and none of the database.
"""
