from confide.inference.asked import Area as Area
from confide.inference.inferring import Inference as Inference
from confide.inference.inferring import infer as infer
from confide.inference.opened_source import AreaEstimate as AreaEstimate
from confide.inference.opened_source import InferenceSource as InferenceSource
from confide.inference.opened_source import open_source as open_source
from confide.inference.replicates import Replicates as Replicates
from confide.inference.replicates import replicate as replicate
