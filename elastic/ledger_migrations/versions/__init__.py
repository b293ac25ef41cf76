"""Steps of the schema, oldest first by `down_revision`."""
