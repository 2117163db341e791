{{/*
`kstorm prepare` as a container: dict "root" $ "mode" check|topics. `check` does not connect to Kafka.
*/}}
{{- define "kstorm.prepareContainer" -}}
{{- $root := .root -}}
- name: prepare
  image: {{ include "kstorm.image" (dict "root" $root "image" $root.Values.images.spout) }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  command: [kstorm, prepare]
  args:
    - --values={{ include "kstorm.shape" $root }}
    {{- if eq .mode "check" }}
    - --check-only
    {{- else }}
    {{- if $root.Values.dev.enabled }}
    - --ends={{ $root.Values.dev.kafka.partitions }}
    {{- else if $root.Values.prepare.allowMissingEnds }}
    - --allow-missing-ends
    {{- end }}
    - --wait={{ $root.Values.prepare.waitSeconds }}
    {{- end }}
  securityContext:
    {{- include "kstorm.containerSecurity" $root | nindent 4 }}
  env:
    {{- include "kstorm.environment" $root | nindent 4 }}
    {{- with $root.Values.defaults.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  resources:
    {{- toYaml $root.Values.prepare.resources | nindent 4 }}
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
    {{- include "kstorm.mounts" $root | nindent 4 }}
    {{- with $root.Values.defaults.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* An init container for each other image of the workloads and the web UI. It only runs if the image can be pulled. */}}
{{- define "kstorm.imageChecks" -}}
{{- $seen := list (include "kstorm.image" (dict "root" . "image" .Values.images.spout)) -}}
{{- $images := dict -}}
{{- range $name, $workload := include "kstorm.workloads" . | fromJson -}}
{{- $_ := set $images $workload.id $workload.image -}}
{{- end -}}
{{- if .Values.ui.enabled -}}{{- $_ := set $images "ui" .Values.images.ui -}}{{- end -}}
{{- range $id, $image := $images -}}
{{- $full := include "kstorm.image" (dict "root" $ "image" $image) -}}
{{- if not (has $full $seen) -}}
{{- $seen = append $seen $full }}
- name: image-of-{{ $id | lower | replace "_" "-" | trimSuffix "-" }}
  image: {{ $full }}
  imagePullPolicy: {{ $.Values.image.pullPolicy }}
  command: ["true"]
  securityContext:
    {{- include "kstorm.containerSecurity" $ | nindent 4 }}
  resources:
    {{- toYaml $.Values.prepare.resources | nindent 4 }}
  terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The values that must match the code, as `kstorm prepare --values` reads them. */}}
{{- define "kstorm.shape" -}}
{{- $components := dict -}}
{{- range $id, $component := .Values.components -}}
{{- $_ := set $components $id (pick $component "kind" "tasks" "stateful") -}}
{{- end -}}
{{- dict "topologyName" .Values.topologyName "ackerTasks" .Values.ackers.tasks "components" $components | toJson -}}
{{- end -}}
