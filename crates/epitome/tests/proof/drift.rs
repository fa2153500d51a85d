//! No drift: fifty rounds of compaction on a growing thread lose no pin and no constraint.
