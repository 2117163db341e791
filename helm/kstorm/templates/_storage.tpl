{{/* What is asked of a volume: a dict with "size", "storageClass" and, if it is another, "accessMode". */}}
{{- define "kstorm.claim" -}}
accessModes: [{{ .accessMode | default "ReadWriteOnce" }}]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end -}}
