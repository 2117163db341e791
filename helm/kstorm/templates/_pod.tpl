{{/* Parts that the pods of services, Job and test share. */}}

{{- define "kstorm.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "kstorm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Settings of every pod. For a pod that calls the API server, pass a dict "Values" $.Values "token" true instead of the root. */}}
{{- define "kstorm.podBasics" -}}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
securityContext:
  {{- include "kstorm.podSecurity" . | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The egress rule for the API server: the port of its Service and the port behind it. */}}
{{- define "kstorm.toApiServer" -}}
- ports:
    - port: 443
    - port: 6443
  {{- with .Values.networkPolicy.egress.apiServer }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Environment variables with the topology, Kafka and ZooKeeper. */}}
{{- define "kstorm.environment" -}}
- name: KSTORM_TOPOLOGY
  value: {{ include "kstorm.wiringPath" (dict "root" . "path" .Values.topology) | quote }}
{{- with .Values.topologyFilter }}
- name: KSTORM_TOPOLOGY_FILTER
  value: {{ include "kstorm.wiringPath" (dict "root" $ "path" .) | quote }}
{{- end }}
{{- with tpl .Values.topologyId . }}
- name: KSTORM_TOPOLOGY_ID
  value: {{ . | quote }}
{{- end }}
- name: KSTORM_RELEASE
  value: {{ printf "%s/%s" .Release.Namespace .Release.Name | quote }}
- name: KSTORM_BOOTSTRAP_SERVERS
  value: {{ include "kstorm.bootstrapServers" . | quote }}
- name: KSTORM_ZOOKEEPER
  value: {{ include "kstorm.zookeeper" . | quote }}
- name: KSTORM_REPLICATION_FACTOR
  value: {{ ternary 1 .Values.kafka.replicationFactor .Values.dev.enabled | toString | quote }}
{{- if .Values.dev.enabled }}
- name: KSTORM_END_PARTITIONS
  value: {{ .Values.dev.kafka.partitions | toString | quote }}
{{- end }}
- name: KSTORM_LOG_LEVEL
  value: {{ .Values.log.level }}
- name: KSTORM_LOG_FORMAT
  value: {{ .Values.log.format }}
- name: KSTORM_DATA_DIR
  value: /data
- name: PYTHONPATH
  value: /topology
{{- include "kstorm.logins" . }}
{{- end -}}

{{/* Environment variables with the logins of both. */}}
{{- define "kstorm.logins" -}}
{{- with include "kstorm.kafkaProperties" . | fromJson }}
- name: KSTORM_KAFKA_PROPERTIES
  value: {{ toJson . | quote }}
{{- end }}
{{- if .Values.kafka.existingSecret.name }}
- name: KSTORM_KAFKA_PROPERTIES_FILE
  value: /etc/kstorm/kafka/{{ .Values.kafka.existingSecret.key }}
{{- end }}
{{- if .Values.zookeeper.existingSecret.name }}
- name: KSTORM_ZOOKEEPER_AUTH_FILE
  value: /etc/kstorm/zookeeper/{{ .Values.zookeeper.existingSecret.key }}
{{- end }}
{{- with include "kstorm.zookeeperTls" . }}
- name: KSTORM_ZOOKEEPER_TLS
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The TLS settings for ZooKeeper, as JSON; empty without TLS. */}}
{{- define "kstorm.zookeeperTls" -}}
{{- with .Values.zookeeper.tls -}}
{{- if .enabled -}}
{{- $found := dict -}}
{{- if .existingSecret -}}
{{- $folder := "/etc/kstorm/zookeeper-tls" -}}
{{- $_ := set $found "ca" (printf "%s/%s" $folder .caKey) -}}
{{- if .clientCertificate -}}
{{- $_ := set $found "certfile" (printf "%s/%s" $folder .certKey) -}}
{{- $_ := set $found "keyfile" (printf "%s/%s" $folder .privateKeyKey) -}}
{{- with .keyPasswordKey -}}{{- $_ := set $found "keyfile_password_file" (printf "%s/%s" $folder .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if not .checkHostname -}}{{- $_ := set $found "check_hostname" false -}}{{- end -}}
{{- toJson $found -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where its files are: as a mount, and as a volume. */}}
{{- define "kstorm.zookeeperTlsMount" -}}
{{- if .Values.zookeeper.tls.existingSecret }}
- name: zookeeper-tls
  mountPath: /etc/kstorm/zookeeper-tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "kstorm.zookeeperTlsVolume" -}}
{{- with .Values.zookeeper.tls.existingSecret }}
- name: zookeeper-tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- end -}}

{{/* librdkafka's properties that are not secret, as JSON. */}}
{{- define "kstorm.kafkaProperties" -}}
{{- $found := dict -}}
{{- with .Values.kafka -}}
{{- if ne .securityProtocol "PLAINTEXT" -}}{{- $_ := set $found "security.protocol" .securityProtocol -}}{{- end -}}
{{- with .saslMechanism -}}{{- $_ := set $found "sasl.mechanism" . -}}{{- end -}}
{{- if .tls.existingSecret -}}
{{- $_ := set $found "ssl.ca.location" (printf "/etc/kstorm/tls/%s" .tls.caKey) -}}
{{- if .tls.clientCertificate -}}
{{- $_ := set $found "ssl.certificate.location" (printf "/etc/kstorm/tls/%s" .tls.certKey) -}}
{{- $_ := set $found "ssl.key.location" (printf "/etc/kstorm/tls/%s" .tls.privateKeyKey) -}}
{{- end -}}
{{- end -}}
{{- $found = mergeOverwrite $found .properties -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- define "kstorm.mounts" -}}
- name: tmp
  mountPath: /tmp
- name: data
  mountPath: /data
{{- include "kstorm.codeMount" . }}
{{- if include "kstorm.wiringFiles" . | fromJsonArray }}
- name: wiring
  mountPath: /etc/kstorm/topology
  readOnly: true
{{- end }}
{{- include "kstorm.loginMounts" . }}
{{- end -}}

{{/* The files of the logins: mounts, and volumes further down. */}}
{{- define "kstorm.loginMounts" -}}
{{- with .Values.kafka.existingSecret.name }}
- name: kafka
  mountPath: /etc/kstorm/kafka
  readOnly: true
{{- end }}
{{- with .Values.kafka.tls.existingSecret }}
- name: tls
  mountPath: /etc/kstorm/tls
  readOnly: true
{{- end }}
{{- with .Values.zookeeper.existingSecret.name }}
- name: zookeeper
  mountPath: /etc/kstorm/zookeeper
  readOnly: true
{{- end }}
{{- include "kstorm.zookeeperTlsMount" . }}
{{- end -}}

{{/* Volumes of these mounts except `data`: dict "root" $ "code" NAME-OF-THE-CONFIGMAP-WITH-TOPOLOGYFILES. */}}
{{- define "kstorm.volumes" -}}
- name: tmp
  emptyDir: {}
{{- include "kstorm.codeVolume" . }}
{{- with include "kstorm.wiringFiles" .root | fromJsonArray }}
- name: wiring
  {{- include "kstorm.filesOf" (dict "code" $.code "paths" .) | nindent 2 }}
{{- end }}
{{- include "kstorm.loginVolumes" .root }}
{{- end -}}

{{/* The code, if it is in a ConfigMap: the mount, and the volume (dict "root" $ "code" NAME-OF-THE-CONFIGMAP-WITH-TOPOLOGYFILES). */}}
{{- define "kstorm.codeMount" -}}
{{- if or (include "kstorm.codeFiles" . | fromJsonArray) .Values.existingTopologyConfigMap }}
- name: topology
  mountPath: /topology
  readOnly: true
{{- end }}
{{- end -}}

{{- define "kstorm.codeVolume" -}}
{{- $paths := include "kstorm.codeFiles" .root | fromJsonArray }}
{{- if $paths }}
- name: topology
  {{- include "kstorm.filesOf" (dict "code" .code "paths" $paths) | nindent 2 }}
{{- else if .root.Values.existingTopologyConfigMap }}
- name: topology
  configMap:
    name: {{ .root.Values.existingTopologyConfigMap }}
{{- end }}
{{- end -}}

{{/* A volume with some of topologyFiles: dict "code" NAME-OF-THE-CONFIGMAP "paths" PATHS. */}}
{{- define "kstorm.filesOf" -}}
configMap:
  name: {{ .code }}
  items:
    {{- range .paths }}
    - key: {{ include "kstorm.fileKey" . }}
      path: {{ . }}
    {{- end }}
{{- end -}}

{{/* The paths in topologyFiles that wire a topology in YAML, as a JSON list. They must not hide the code of an image. */}}
{{- define "kstorm.wiringFiles" -}}
{{- $found := list -}}
{{- if regexMatch "[.]ya?ml$" .Values.topology -}}
{{- range $path, $_ := .Values.topologyFiles -}}
{{- if regexMatch "[.](ya?ml|properties)$" $path -}}{{- $found = append $found $path -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The other paths in topologyFiles, as a JSON list. */}}
{{- define "kstorm.codeFiles" -}}
{{- $wiring := include "kstorm.wiringFiles" . | fromJsonArray -}}
{{- $found := list -}}
{{- range $path, $_ := .Values.topologyFiles -}}
{{- if not (has $path $wiring) -}}{{- $found = append $found $path -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The path in a pod of a file in topologyFiles. Returns any other path unchanged: dict "root" $ "path" PATH. */}}
{{- define "kstorm.wiringPath" -}}
{{- if has .path (include "kstorm.wiringFiles" .root | fromJsonArray) -}}/etc/kstorm/topology/{{- end -}}{{ .path }}
{{- end -}}

{{/* The ConfigMap key for a path. Keys contain no slash, and paths no two dots in a row. */}}
{{- define "kstorm.fileKey" -}}
{{- . | replace "/" ".." | trimPrefix "." -}}
{{- end -}}

{{- define "kstorm.topologyFiles" -}}
{{- range $path, $text := .Values.topologyFiles }}
{{ include "kstorm.fileKey" $path }}: {{ $text | toJson }}
{{- end }}
{{- end -}}

{{/* An HTTP probe: dict "path" PATH "timing" TIMING. */}}
{{- define "kstorm.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
{{ toYaml .timing }}
{{- end -}}

{{- define "kstorm.loginVolumes" -}}
{{- with .Values.kafka.existingSecret.name }}
- name: kafka
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .Values.kafka.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .Values.zookeeper.existingSecret.name }}
- name: zookeeper
  secret:
    secretName: {{ . }}
{{- end }}
{{- include "kstorm.zookeeperTlsVolume" . }}
{{- end -}}
