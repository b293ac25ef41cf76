"""The ledger's schema, one step a file. Run at every start by `ledger_schema`."""
