{{/* The pipeline: what its driver and its executors are told, and what they have in common. */}}

{{/* Whether its executors are pods, "true" or empty. */}}
{{- define "kstorm.pipelineInPods" -}}
{{- if hasPrefix "k8s://" .Values.pipeline.master -}}true{{- end -}}
{{- end -}}

{{/* Whether tables or checkpoints are in the volume, and not all in an object store: "true" or empty. */}}
{{- define "kstorm.pipelineHasVolume" -}}
{{- with .Values.pipeline -}}
{{- range list .tables (.checkpoints | default .tables) -}}{{- if not (contains ":/" .) -}}true{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The driver's account: one of its own where it makes pods. */}}
{{- define "kstorm.pipelineAccount" -}}
{{- if include "kstorm.pipelineInPods" . -}}
{{- .Values.pipeline.serviceAccount.name | default (include "kstorm.name" (dict "root" . "of" "pipeline")) -}}
{{- else -}}
{{- include "kstorm.serviceAccount" . -}}
{{- end -}}
{{- end -}}

{{/* What the driver is told: dict "root" $ "sparkConf" CONF. */}}
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
# Twice the cores, as Spark's partitions should be.
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

{{/* The pages of the driver: its port, and what asks them. */}}
{{- define "kstorm.pipelinePages" -}}
{{- if not .Values.diagnosticMode.enabled -}}
livenessProbe:
  {{- include "kstorm.probe" (dict "path" "/livez" "timing" .Values.pipeline.probes.liveness) | nindent 2 }}
readinessProbe:
  {{- include "kstorm.probe" (dict "path" "/readyz" "timing" .Values.pipeline.probes.readiness) | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Volumes of the driver and, but for logins, of the executors: dict "root" $ "driver" BOOL. */}}
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

{{/* Where their containers have them: dict "root" $ "driver" BOOL. */}}
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
