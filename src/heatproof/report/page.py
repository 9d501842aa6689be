from pathlib import Path
def write_report(run): return run.folder/"report.html"
