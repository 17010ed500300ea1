from confide.lab.attacks.suppression.audit_files import AuditSubject as AuditSubject
from confide.lab.attacks.suppression.audit_files import audit_suppression as audit_suppression
from confide.lab.attacks.suppression.audit_files import read_subject as read_subject
from confide.lab.attacks.suppression.suppression_audit import Audit as Audit
from confide.lab.attacks.suppression.suppression_audit import Required as Required
from confide.lab.attacks.suppression.suppression_audit import Suspect as Suspect
from confide.lab.attacks.suppression.suppression_audit import audit as audit
