"""Other tools' figures from their own code, beside ours."""
