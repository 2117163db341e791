{{/* The spec of a volume claim: a dict with "size", "storageClass" and optionally "accessMode". */}}
{{- define "kstorm.claim" -}}
accessModes: [{{ .accessMode | default "ReadWriteOnce" }}]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end -}}
