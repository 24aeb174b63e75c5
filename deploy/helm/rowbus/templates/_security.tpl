{{- define "rowbus.user" -}}
securityContext: {runAsNonRoot: true, runAsUser: 10001}
{{- end }}
{{- define "rowbus.rights" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
