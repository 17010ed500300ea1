from confide.lab.risk.privacy_audit.audit_of_privacy import audit_canaries as audit_canaries
from confide.lab.risk.privacy_audit.audit_of_privacy import audit_privacy as audit_privacy
from confide.lab.risk.privacy_audit.bench import CanaryAudit as CanaryAudit
from confide.lab.risk.privacy_audit.bench import MeasurementBound as MeasurementBound
from confide.lab.risk.privacy_audit.bench import PrivacyAudit as PrivacyAudit
