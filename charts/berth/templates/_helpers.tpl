{{/* Base name of all objects, at most 53 characters so that suffixes fit into 63. */}}
{{- define "berth.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the operator's pod: fixed for the life of a release. */}}
{{- define "berth.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object. The chart's own win over commonLabels, or a selector could stop to match. */}}
{{- define "berth.labels" -}}
{{- $own := include "berth.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/component" "scheduler" -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- merge $own (default dict .Values.commonLabels) | toYaml -}}
{{- end -}}

{{/* Labels of every object, and its annotations where there are any. */}}
{{- define "berth.metadata" -}}
{{- include "berth.metadataWith" (dict "root" .) -}}
{{- end -}}

{{/* The same with an object's own: a dict of root, labels and annotations. */}}
{{- define "berth.metadataWith" -}}
labels: {{- merge dict (default dict .labels) (include "berth.labels" .root | fromYaml) | toYaml | nindent 2 }}
{{- with merge dict (default dict .annotations) (default dict .root.Values.commonAnnotations) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Labels of the operator's pods. The versions of chart and operator are not among them: a chart that changes nothing else of the
     pod restarts nothing. */}}
{{- define "berth.podLabels" -}}
{{- $own := include "berth.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/component" "scheduler" -}}
{{- merge $own (default dict .Values.commonLabels) (default dict .Values.podLabels) | toYaml -}}
{{- end -}}

{{/* Where the image runs and how it is pulled: the same for all pods of the chart. */}}
{{- define "berth.podPlace" -}}
# Never a profile: an operator that waits for itself to be placed never starts.
schedulerName: default-scheduler
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
# The image is for Linux alone.
nodeSelector: {{- merge dict (default dict .Values.nodeSelector) (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- end -}}

{{/* Name of the ServiceAccount that the operator runs as. */}}
{{- define "berth.serviceAccountName" -}}
{{- default (include "berth.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* The operator's account, as the subject of role bindings. */}}
{{- define "berth.subject" -}}
kind: ServiceAccount
name: {{ include "berth.serviceAccountName" . }}
namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* Image reference: a digest wins over a tag. */}}
{{- define "berth.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Name of the Lease, fixed in the binary: see operator.leaseNamespace. */}}
{{- define "berth.leaseName" -}}
berth.scheduling.berth.dev
{{- end -}}

{{/* Name of the mark beside it, fixed in the binary as well. */}}
{{- define "berth.leaseMarkName" -}}
{{ include "berth.leaseName" . }}-mark
{{- end -}}

{{/* The Lease's times as arguments. The operator refuses times that do not go together: it is better said before it is installed. */}}
{{- define "berth.leaderElection" -}}
{{- with .Values.operator.leaderElection -}}
{{- $duration := .leaseDurationSeconds | int -}}
{{- $deadline := .renewDeadlineSeconds | int -}}
{{- $retry := .retryPeriodSeconds | int -}}
{{- if le (mul 10 $deadline) (mul 12 $retry) -}}
{{- fail (printf "operator.leaderElection.renewDeadlineSeconds (%d) must be more than 1.2 times retryPeriodSeconds (%d): raise it, or lower retryPeriodSeconds" $deadline $retry) -}}
{{- end -}}
{{- if le $duration $deadline -}}
{{- fail (printf "operator.leaderElection.leaseDurationSeconds (%d) must be more than renewDeadlineSeconds (%d): raise it, or lower renewDeadlineSeconds" $duration $deadline) -}}
{{- end -}}
{{- if le (mul 10 (sub $duration 9)) (mul 12 $retry) -}}
{{- fail (printf "operator.leaderElection.leaseDurationSeconds (%d) must be more than 9, the seconds that a request may be under way, by more than 1.2 times retryPeriodSeconds (%d): raise it, or lower retryPeriodSeconds" $duration $retry) -}}
{{- end -}}
- --leader-elect-lease-duration={{ $duration }}s
- --leader-elect-renew-deadline={{ $deadline }}s
- --leader-elect-retry-period={{ $retry }}s
{{- end -}}
{{- end -}}

{{/* Where the runbooks are, without a slash at its end. From Alertmanager a relative address opens nothing, and no other is known here. */}}
{{- define "berth.runbookUrl" -}}
{{- with .Values.metrics.prometheusRule -}}
{{- if not .runbookUrl -}}
{{- fail "metrics.prometheusRule.runbookUrl must be set while metrics.prometheusRule.enabled is true: give the http:// or https:// address at which you publish or mirror the folder docs/ of Berth's repository, or your Git host shows it, such as https://example.com/berth/docs; each alert's runbook_url is that address with /alerts.md#… and leads to its section there" -}}
{{- end -}}
{{- .runbookUrl | trimSuffix "/" -}}
{{- end -}}
{{- end -}}

{{/* The part that all admission policies share: they concern the operator's account alone. */}}
{{- define "berth.policyOfAccount" -}}
failurePolicy: Fail
matchConditions:
  - name: the-operators-account
    expression: request.userInfo.username == "system:serviceaccount:{{ .Release.Namespace }}:{{ include "berth.serviceAccountName" . }}"
{{- end -}}

{{/* A validation that refuses the given namespaces, if there are any. */}}
{{- define "berth.policyNamespaces" -}}
{{- if . -}}
- expression: '!(request.namespace in {{ toJson . }})'
  message: the operator may do nothing to pods of this namespace (admissionPolicy.protectedNamespaces)
{{- end -}}
{{- end -}}
