{{/* The pipeline's executor pods: Spark's settings and the pod template, for both ways to start the driver. */}}

{{/* Encryption between driver and executors, as JSON. kstorm_pipeline.encryption has the same settings, and the reasons. */}}
{{- define "kstorm.strongEncryption" -}}
{{- dict
  "spark.network.crypto.cipher" "AES/GCM/NoPadding"
  "spark.network.crypto.authEngineVersion" "2"
  "spark.network.crypto.saslFallback" "false"
| toJson -}}
{{- end -}}

{{/*
Spark's settings for a driver that creates pods, as JSON. The driver may only create, watch and delete pods. So the executors get
no ConfigMap, and the driver looks for no volume claims.
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

{{/* The same for a driver in a Deployment's pod, which is not started by spark-submit. */}}
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

{{/* Keeps other pods that write tables on the driver's node, because one node at a time can mount a ReadWriteOnce volume. */}}
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

{{/* The template of an executor's pod. Spark adds image, memory, CPU, arguments and variables. */}}
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
    # The operator looks for this name.
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
