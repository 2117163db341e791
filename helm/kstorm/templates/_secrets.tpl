{{/* The chart refuses secret values: they would be visible in the release, in the pods' description and in their environment. */}}

{{/*
"true" if a setting is secret, otherwise empty: dict "name" NAME "value" VALUE. A setting is secret if its name says so, unless
the name is that of a location. It is also secret if its value contains a login, a password or a private key.
*/}}
{{- define "kstorm.isSecret" -}}
{{- $value := toString .value -}}
{{- if not (has (lower $value) (list "" "true" "false")) -}}
{{- $named := regexMatch "(?i)(passw|passphrase|secret|token([^s]|$)|jaas|user\\.info|zookeeper_auth|(^|[._-])(pass|pwd)$|(access|private|api|account|encryption|signing|shared|master|store)[._-]?key|\\.pem$)" .name -}}
{{- $public := regexMatch "(?i)(file|path|location|dir|url|uri|endpoint|mechanism|class|provider|type|name|source|algorithm|length|seconds|secs|ms|id)$|keyprovider|^spark\\.kubernetes\\.(driver|executor)\\.secret(s|KeyRef)\\." .name -}}
{{- $holds := regexMatch "(?i)(passw(or)?d|passphrase|(secret|access|private|api|account)[._-]?key|secret|token|jaas\\.config)[\"']?\\s*[=:]\\s*[\"']?[^\\s\"',;}]" $value -}}
{{- $login := regexMatch "://[^/@:\\s]+:[^/@\\s]+@|-----BEGIN [A-Z ]*PRIVATE KEY" $value -}}
{{- if or (and $named (not $public)) $holds $login -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Complaints about the secrets in a map: dict "where" PATH "values" MAP "instead" REMEDY. Values are not shown. */}}
{{- define "kstorm.secretsIn" -}}
{{- $wrong := list -}}
{{- range $name, $value := .values -}}
{{- if include "kstorm.isSecret" (dict "name" $name "value" $value) -}}
{{- $wrong = append $wrong (printf "%s contains %s, which is secret: %s" $.where $name $.instead) -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{/* The same for variables, as in Kubernetes. $(NAME) in a value refers to another variable and is not a secret itself. */}}
{{- define "kstorm.secretsInEnv" -}}
{{- $wrong := list -}}
{{- range .values -}}
{{- $value := hasKey . "value" | ternary (toString .value) "" -}}
{{- $plain := regexReplaceAll "\\$\\([A-Za-z_][A-Za-z0-9_.-]*\\)" $value "" -}}
{{- if include "kstorm.isSecret" (dict "name" .name "value" $plain) -}}
{{- $wrong = append $wrong (printf "%s contains %s with a secret value: take it from an existing Secret, by valueFrom.secretKeyRef" $.where .name) -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{/* The Secret with the token for state queries, and its key, as JSON. The default is the web UI's Secret. */}}
{{- define "kstorm.stateToken" -}}
{{- ternary .Values.stateQueries.existingSecret .Values.ui.existingSecret (ne .Values.stateQueries.existingSecret.name "") | toJson -}}
{{- end -}}

{{- define "kstorm.validateSecrets" -}}
{{- $wrong := list -}}
{{- $into := "put it into the Secret of %s" -}}
{{- $pipeline := .Values.pipeline -}}
{{- range list
  (dict "where" "kafka.properties" "values" .Values.kafka.properties "instead" (printf $into "kafka.existingSecret"))
  (dict "where" "keda.metadata" "values" .Values.keda.metadata "instead" "put it into the TriggerAuthentication of keda.authenticationRef")
  (dict "where" "pipeline.kafkaOptions" "values" $pipeline.kafkaOptions "instead" (printf $into "pipeline.kafkaOptionsSecret"))
  (dict "where" "pipeline.schemaRegistry.options" "values" $pipeline.schemaRegistry.options "instead" (printf $into "pipeline.schemaRegistry.optionsSecret"))
  (dict "where" "pipeline.sparkConf" "values" $pipeline.sparkConf "instead" (printf "%s, or pass it as a variable of pipeline.extraEnv by secretKeyRef" (printf $into "pipeline.sparkConfSecret")))
-}}
{{- $wrong = concat $wrong (include "kstorm.secretsIn" . | fromJsonArray) -}}
{{- end -}}
{{- range $name, $place := pick $pipeline "tables" "checkpoints" -}}
{{- if include "kstorm.isSecret" (dict "name" $name "value" $place) -}}
{{- $wrong = append $wrong (printf "pipeline.%s has a login in its URL: pass it as variables of pipeline.extraEnv, by valueFrom.secretKeyRef" $name) -}}
{{- end -}}
{{- end -}}
{{- $environments := dict "defaults" .Values.defaults "ackers" .Values.ackers "pipeline" $pipeline -}}
{{- range $id, $component := .Values.components -}}{{- $_ := set $environments (printf "components.%s" $id) $component -}}{{- end -}}
{{- range $where, $of := $environments -}}
{{- $wrong = concat $wrong (include "kstorm.secretsInEnv" (dict "where" (printf "%s.extraEnv" $where) "values" $of.extraEnv) | fromJsonArray) -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{/* Spark's secret settings in the pods of the pipeline: the variable, the mount and the volume. */}}
{{- define "kstorm.sparkConfVariable" -}}
{{- with .Values.pipeline.sparkConfSecret }}
{{- if .name }}
- name: KSTORM_PIPELINE_SPARK_CONF_FILE
  value: /etc/kstorm/sparkconf/{{ .key }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "kstorm.sparkConfMount" -}}
{{- if .Values.pipeline.sparkConfSecret.name }}
- name: sparkconf
  mountPath: /etc/kstorm/sparkconf
  readOnly: true
{{- end }}
{{- end -}}

{{- define "kstorm.sparkConfVolume" -}}
{{- with .Values.pipeline.sparkConfSecret.name }}
- name: sparkconf
  secret:
    secretName: {{ . }}
{{- end }}
{{- end -}}
