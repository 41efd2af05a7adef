"""Regions: stages that run in worker processes and form one stage of the pipeline."""
