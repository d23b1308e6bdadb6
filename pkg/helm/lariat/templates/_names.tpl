{{- define "lariat.selector" -}}
app.kubernetes.io/name: lariat
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "lariat.labels" -}}
{{ include "lariat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
{{- define "lariat.name" -}}
{{ printf "%s-lariat" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
