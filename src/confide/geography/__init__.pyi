from confide.geography.spine import OUTSIDE as OUTSIDE
from confide.geography.spine import AreaSet as AreaSet
from confide.geography.spine import Geolevel as Geolevel
from confide.geography.spine import Spine as Spine
from confide.geography.spine import build_spine as build_spine
