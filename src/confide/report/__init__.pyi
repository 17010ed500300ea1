from confide.report import charts as charts
from confide.report.charts import Chart as Chart
from confide.report.rendering import render as render
