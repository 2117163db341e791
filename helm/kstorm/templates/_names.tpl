{{/* Names, labels and images. */}}

{{/* The name of an object of the release: dict "root" $ "of" NAME. It turns an ID into a DNS label. */}}
{{- define "kstorm.name" -}}
{{- printf "%s-%s" .root.Release.Name (.of | lower | replace "_" "-" | trimSuffix "-") -}}
{{- end -}}

{{- define "kstorm.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary .Release.Name "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* "true" if stopping pods of StatefulSets ask Kubernetes whether they are scaled away, otherwise empty. */}}
{{- define "kstorm.asksScale" -}}
{{- if or .Values.serviceAccount.create .Values.serviceAccount.asksScale -}}true{{- end -}}
{{- end -}}

{{/* Labels of every object: dict "root" $ "part" PART. */}}
{{- define "kstorm.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "kstorm.podLabels" . }}
{{- end -}}

{{/* The selector of a part's pods. It must not change. */}}
{{- define "kstorm.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .part }}
app.kubernetes.io/component: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Labels of pods. They contain no versions, so that a new chart version alone restarts no pods. */}}
{{- define "kstorm.podLabels" -}}
app.kubernetes.io/part-of: kstorm
{{ include "kstorm.selector" . }}
{{- end -}}

{{/* The labels by which commands such as `kstorm topology` find a workload: dict "root" $ "id" ID "kind" KIND. */}}
{{- define "kstorm.topologyLabels" -}}
kstorm.io/topology: {{ .root.Values.topologyName | quote }}
kstorm.io/component: {{ .id | quote }}
kstorm.io/kind: {{ .kind }}
{{- end -}}

{{/* An image's name: dict "root" $ "image" (dict "repository" … "tag" … "digest" …). */}}
{{- define "kstorm.image" -}}
{{- $name := .image.repository -}}
{{- with .root.Values.image.registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "kstorm.bootstrapServers" -}}
{{- if .Values.dev.enabled -}}{{ .Release.Name }}-kafka.{{ .Release.Namespace }}.svc:9092{{- else -}}{{ .Values.kafka.bootstrapServers }}{{- end -}}
{{- end -}}

{{- define "kstorm.zookeeper" -}}
{{- if .Values.dev.enabled -}}{{ .Release.Name }}-zookeeper.{{ .Release.Namespace }}.svc:2181{{- else -}}{{ .Values.zookeeper.connect }}{{- end -}}
{{- end -}}
