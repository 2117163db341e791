{{/*
Every component and the ackers with their defaults, as JSON: name → {id, kind, tasks, replicas, …}.
Only this place decides which workloads become StatefulSets. Spouts and ackers keep their pods' names, because their tasks are
costly to move. Ackers and bolts with state keep their disks.
*/}}
{{- define "kstorm.workloads" -}}
{{- $found := dict -}}
{{- range $id, $component := .Values.components -}}
{{- $own := mergeOverwrite (deepCopy $.Values.defaults) (deepCopy $component) (dict "id" $id) -}}
{{- $_ := set $own "stateful" ($own.stateful | default false) -}}
{{- $_ := set $own "onDisk" $own.stateful -}}
{{- $_ := set $own "type" (ternary "StatefulSet" "Deployment" (or $own.stateful (eq $own.kind "spout"))) -}}
{{- $_ := set $own "image" (mergeOverwrite (deepCopy (index $.Values.images $own.kind)) ($own.image | default dict)) -}}
{{- $auto := $own.autoscaling | default dict -}}
{{- $_ := set $own "hpa" ($auto.hpa | default (dict "enabled" false)) -}}
{{- $_ := set $own "keda" ($auto.keda | default (dict "enabled" false)) -}}
{{- $_ := set $own "replicas" (hasKey $own "replicas" | ternary $own.replicas 1) -}}
{{- $_ := set $found (include "kstorm.name" (dict "root" $ "of" $id)) $own -}}
{{- end -}}
{{- if .Values.ackers.tasks -}}
{{- $own := mergeOverwrite (deepCopy .Values.defaults) (deepCopy .Values.ackers) (dict "id" "acker" "kind" "acker") -}}
{{- $_ := set $own "stateful" true -}}
{{- $_ := set $own "onDisk" true -}}
{{- $_ := set $own "type" "StatefulSet" -}}
{{- $_ := set $own "image" (mergeOverwrite (deepCopy .Values.images.acker) ($own.image | default dict)) -}}
{{- $_ := set $own "hpa" (dict "enabled" false) -}}
{{- $_ := set $own "keda" (dict "enabled" false) -}}
{{- $_ := set $found (include "kstorm.name" (dict "root" . "of" "acker")) $own -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The names of the workloads by type, as JSON. */}}
{{- define "kstorm.workloadNames" -}}
{{- $found := dict "Deployment" list "StatefulSet" list -}}
{{- range $name, $workload := include "kstorm.workloads" . | fromJson -}}
{{- $_ := set $found $workload.type (append (index $found $workload.type) $name) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}
