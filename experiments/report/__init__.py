"""Reports, in this order: ``read_studies`` from disk, ``merged`` into one, their ``summary``, ``report_md`` on disk."""
