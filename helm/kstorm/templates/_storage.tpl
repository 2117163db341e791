{{/* What is asked of a volume: a dict with "size" and "storageClass". */}}
{{- define "kstorm.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end -}}
