"""Cell suppression: cells that would disclose are left out, and others with them, so that none can be worked out."""
