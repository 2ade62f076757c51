"""Export of SAM2, SAM2.1 and EdgeTAM to the graphs of `headroom.vos=1` (docs/export-vos.md)."""
