from confide.report import charts as charts
from confide.report.certificate import render as render
from confide.report.charts import Chart as Chart
from confide.report.dossier import BANNER as BANNER
