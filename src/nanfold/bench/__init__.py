"""What `nanfold bench` measures: made data, rivals in the same conditions, growth, and what the machine can do."""
