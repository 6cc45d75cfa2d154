"""A deployment on disk and as processes: keys and certificates, files, starting and stopping."""
