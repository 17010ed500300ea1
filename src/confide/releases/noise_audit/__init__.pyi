from confide.releases.noise_audit.audit_of_noise import MeasurementAudit as MeasurementAudit
from confide.releases.noise_audit.audit_of_noise import NoiseAudit as NoiseAudit
from confide.releases.noise_audit.audit_of_noise import audit as audit
from confide.releases.noise_audit.audit_of_noise import noise_audit_page as noise_audit_page
