"""Content encoders: from titles and pictures to the feature tables that methods read."""
