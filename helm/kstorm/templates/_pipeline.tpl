{{/* The pipeline: settings of its driver, and volumes and mounts that driver and executors share. */}}

{{/* "true" if its executors are pods, otherwise empty. */}}
{{- define "kstorm.pipelineInPods" -}}
{{- if hasPrefix "k8s://" .Values.pipeline.master -}}true{{- end -}}
{{- end -}}

{{/* "true" if tables or checkpoints are in the volume; empty if both are in an object store. */}}
{{- define "kstorm.pipelineHasVolume" -}}
{{- with .Values.pipeline -}}
{{- range list .tables (.checkpoints | default .tables) -}}{{- if not (contains ":/" .) -}}true{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The driver's account. A driver that creates pods has its own. */}}
{{- define "kstorm.pipelineAccount" -}}
{{- if include "kstorm.pipelineInPods" . -}}
{{- .Values.pipeline.serviceAccount.name | default (include "kstorm.name" (dict "root" . "of" "pipeline")) -}}
{{- else -}}
{{- include "kstorm.serviceAccount" . -}}
{{- end -}}
{{- end -}}

{{/* Environment variables of the driver: dict "root" $ "sparkConf" CONF. */}}
{{- define "kstorm.pipelineEnvironment" -}}
{{- $root := .root -}}
{{- $sparkConf := .sparkConf -}}
{{- with $root.Values.pipeline -}}
- name: KSTORM_PIPELINE_BOOTSTRAP_SERVERS
  value: {{ include "kstorm.bootstrapServers" $root | quote }}
- name: KSTORM_PIPELINE_TOPIC
  value: {{ .topic | quote }}
{{- with .definition }}
- name: KSTORM_PIPELINE_PIPELINE
  value: {{ . | quote }}
{{- end }}
- name: KSTORM_PIPELINE_TRIGGER
  value: continuous
- name: KSTORM_PIPELINE_INTERVAL_SECONDS
  value: {{ .intervalSeconds | toString | quote }}
- name: KSTORM_PIPELINE_HTTP_PORT
  value: "6066"
- name: KSTORM_PIPELINE_STALLED_SECONDS
  value: {{ .stalledSeconds | toString | quote }}
- name: KSTORM_PIPELINE_QUARANTINE_PERCENT
  value: {{ .quarantinePercent | toString | quote }}
- name: KSTORM_PIPELINE_MASTER
  value: {{ .master | quote }}
- name: KSTORM_PIPELINE_TABLES
  value: {{ .tables | quote }}
{{- with .checkpoints }}
- name: KSTORM_PIPELINE_CHECKPOINTS
  value: {{ . | quote }}
{{- end }}
- name: KSTORM_PIPELINE_DRIVER_MEMORY
  value: {{ .driverMemory }}
{{- if include "kstorm.pipelineInPods" $root }}
# Spark recommends a few partitions per core; this is two.
- name: KSTORM_PIPELINE_SHUFFLE_PARTITIONS
  value: {{ mul 2 .executors.instances .executors.cores | toString | quote }}
{{- end }}
{{- with .kafkaOptions }}
- name: KSTORM_PIPELINE_KAFKA_OPTIONS
  value: {{ toJson . | quote }}
{{- end }}
{{- if .kafkaOptionsSecret.name }}
- name: KSTORM_PIPELINE_KAFKA_OPTIONS_FILE
  value: /etc/kstorm/kafka/{{ .kafkaOptionsSecret.key }}
{{- end }}
{{- with .schemaRegistry }}
{{- with .url }}
- name: KSTORM_PIPELINE_SCHEMA_REGISTRY
  value: {{ . | quote }}
{{- end }}
{{- with .options }}
- name: KSTORM_PIPELINE_SCHEMA_REGISTRY_OPTIONS
  value: {{ toJson . | quote }}
{{- end }}
{{- if .optionsSecret.name }}
- name: KSTORM_PIPELINE_SCHEMA_REGISTRY_OPTIONS_FILE
  value: /etc/kstorm/registry/{{ .optionsSecret.key }}
{{- end }}
{{- end }}
{{- with $sparkConf }}
- name: KSTORM_PIPELINE_SPARK_CONF
  value: {{ toJson . | quote }}
{{- end }}
{{- include "kstorm.sparkConfVariable" $root }}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Probes of the driver's pages. */}}
{{- define "kstorm.pipelinePages" -}}
{{- if not .Values.diagnosticMode.enabled -}}
livenessProbe:
  {{- include "kstorm.probe" (dict "path" "/livez" "timing" .Values.pipeline.probes.liveness) | nindent 2 }}
readinessProbe:
  {{- include "kstorm.probe" (dict "path" "/readyz" "timing" .Values.pipeline.probes.readiness) | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Volumes of the driver and, except those with logins, of the executors: dict "root" $ "driver" BOOL. */}}
{{- define "kstorm.pipelineVolumes" -}}
{{- $root := .root -}}
- name: data
  {{- if include "kstorm.pipelineHasVolume" $root }}
  persistentVolumeClaim:
    claimName: {{ include "kstorm.name" (dict "root" $root "of" "pipeline") }}
  {{- else }}
  emptyDir: {}
  {{- end }}
- name: tmp
  emptyDir: {}
{{- if $root.Values.pipeline.definition }}
{{- include "kstorm.codeVolume" (dict "root" $root "code" (include "kstorm.name" (dict "root" $root "of" "topology"))) }}
{{- end }}
{{- if .driver }}
{{- with $root.Values.pipeline.kafkaOptionsSecret.name }}
- name: kafka
  secret:
    secretName: {{ . }}
{{- end }}
{{- with $root.Values.pipeline.schemaRegistry.optionsSecret.name }}
- name: registry
  secret:
    secretName: {{ . }}
{{- end }}
{{- include "kstorm.sparkConfVolume" $root }}
{{- end }}
{{- with $root.Values.kafka.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- end -}}

{{/* Their mount points: dict "root" $ "driver" BOOL. */}}
{{- define "kstorm.pipelineMounts" -}}
- name: data
  mountPath: /data
- name: tmp
  mountPath: /tmp
{{- if .root.Values.pipeline.definition }}
{{- include "kstorm.codeMount" .root }}
{{- end }}
{{- if and .driver .root.Values.pipeline.kafkaOptionsSecret.name }}
- name: kafka
  mountPath: /etc/kstorm/kafka
  readOnly: true
{{- end }}
{{- if and .driver .root.Values.pipeline.schemaRegistry.optionsSecret.name }}
- name: registry
  mountPath: /etc/kstorm/registry
  readOnly: true
{{- end }}
{{- if .driver }}
{{- include "kstorm.sparkConfMount" .root }}
{{- end }}
{{- if .root.Values.kafka.tls.existingSecret }}
- name: tls
  mountPath: /etc/kstorm/tls
  readOnly: true
{{- end }}
{{- end -}}
