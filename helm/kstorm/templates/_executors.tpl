{{/* The pipeline's executors as pods: what Spark is told of them, whoever starts the driver. */}}

{{/* How driver and executors encrypt, as JSON; the pipeline has the same (kstorm_pipeline.encryption), and says why. */}}
{{- define "kstorm.strongEncryption" -}}
{{- dict
  "spark.network.crypto.cipher" "AES/GCM/NoPadding"
  "spark.network.crypto.authEngineVersion" "2"
  "spark.network.crypto.saslFallback" "false"
| toJson -}}
{{- end -}}

{{/*
Settings of Spark for a driver that makes pods, as JSON. It may create, watch and delete pods, and do nothing else: so executors get no
ConfigMap, and no claims are looked for.
*/}}
{{- define "kstorm.pipelineSparkConf" -}}
{{- $ours := dict
  "spark.kubernetes.executor.disableConfigMap" "true"
  "spark.kubernetes.driver.ownPersistentVolumeClaim" "false"
  "spark.kubernetes.driver.reusePersistentVolumeClaim" "false"
  "spark.kubernetes.driver.service.deleteOnTermination" "false"
  "spark.driver.port" "7078"
  "spark.driver.blockManager.port" "7079"
  "spark.blockManager.port" "7079"
  "spark.authenticate" "true"
  "spark.network.crypto.enabled" "true"
  "spark.executor.failuresValidityInterval" "1h"
-}}
{{- $ours = merge $ours (include "kstorm.strongEncryption" . | fromJson) -}}
{{- range $name, $value := .Values.pipeline.sparkConf -}}{{- $_ := set $ours $name (toString $value) -}}{{- end -}}
{{- toJson $ours -}}
{{- end -}}

{{/* The same for a driver that is a Deployment's pod, which no spark-submit has set up. */}}
{{- define "kstorm.pipelineClientSparkConf" -}}
{{- $ours := dict
  "spark.app.name" (include "kstorm.name" (dict "root" . "of" "pipeline"))
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.container.image" (include "kstorm.image" (dict "root" . "image" .Values.images.pipeline))
  "spark.kubernetes.container.image.pullPolicy" .Values.image.pullPolicy
  "spark.kubernetes.driver.pod.name" "$(KSTORM_POD_NAME)"
  "spark.kubernetes.executor.podTemplateFile" "/etc/kstorm/spark/executor.yaml"
  "spark.driver.host" "$(KSTORM_POD_IP)"
-}}
{{- with .Values.pipeline.executors -}}
{{- $_ := set $ours "spark.executor.instances" (toString .instances) -}}
{{- $_ := set $ours "spark.executor.cores" (toString .cores) -}}
{{- $_ := set $ours "spark.executor.memory" .memory -}}
{{- $_ := set $ours "spark.executor.memoryOverhead" .memoryOverhead -}}
{{- with .cpuRequest }}{{- $_ := set $ours "spark.kubernetes.executor.request.cores" (toString .) -}}{{- end -}}
{{- end -}}
{{- mergeOverwrite $ours (include "kstorm.pipelineSparkConf" . | fromJson) | toJson -}}
{{- end -}}

{{/* Where pods that write the tables too must be: such a volume is on one node at a time. */}}
{{- define "kstorm.besideDriver" -}}
{{- if and (include "kstorm.pipelineHasVolume" .) (eq .Values.pipeline.storage.accessMode "ReadWriteOnce") -}}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "kstorm.selector" (dict "root" . "part" "pipeline") | nindent 12 }}
{{- end -}}
{{- end -}}

{{/* What Spark makes an executor's pod from; it adds image, memory, CPU, arguments and variables. */}}
{{- define "kstorm.executorPod" -}}
metadata:
  labels:
    {{- include "kstorm.podLabels" (dict "root" . "part" "pipeline-executor") | nindent 4 }}
spec:
  {{- include "kstorm.podBasics" . | nindent 2 }}
  serviceAccountName: {{ include "kstorm.serviceAccount" . }}
  {{- with .Values.pipeline.executors.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.pipeline.executors.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "kstorm.besideDriver" . | nindent 2 }}
  containers:
    # Its name is the one that the operator looks for.
    - name: spark-kubernetes-executor
      securityContext:
        {{- include "kstorm.containerSecurity" . | nindent 8 }}
      {{- with .Values.pipeline.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationMessagePolicy: FallbackToLogsOnError
      volumeMounts:
        {{- include "kstorm.pipelineMounts" (dict "root" . "driver" false) | nindent 8 }}
  volumes:
    {{- include "kstorm.pipelineVolumes" (dict "root" . "driver" false) | nindent 4 }}
{{- end -}}
