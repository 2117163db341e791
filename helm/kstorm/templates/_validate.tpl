{{/* Refuses contradictory values, and reports all of them at once. The schema checks each value by itself. */}}
{{- define "kstorm.validate" -}}
{{- $wrong := list -}}
{{- $wrong = concat $wrong (include "kstorm.validateTopology" . | fromJsonArray) -}}
{{- $wrong = concat $wrong (include "kstorm.validateServers" . | fromJsonArray) -}}
{{- $wrong = concat $wrong (include "kstorm.validateWorkloads" . | fromJsonArray) -}}
{{- $wrong = concat $wrong (include "kstorm.validateExtras" . | fromJsonArray) -}}
{{- $wrong = concat $wrong (include "kstorm.validateSecrets" . | fromJsonArray) -}}
{{- if .Values.pipeline.enabled -}}
{{- $wrong = concat $wrong (include "kstorm.validatePipeline" . | fromJsonArray) -}}
{{- end -}}
{{- if and .Values.stateQueries.enabled (not (include "kstorm.stateToken" . | fromJson).name) -}}
{{- $wrong = append $wrong "stateQueries.enabled needs a token: name a Secret with one in stateQueries.existingSecret.name, or in ui.existingSecret.name" -}}
{{- end -}}
{{- with .Values.ui -}}
{{- if and .enabled (not .existingSecret.name) (not .userHeader) -}}
{{- $wrong = append $wrong "ui.enabled needs a login: name a Secret with a token in ui.existingSecret.name, or the header of a proxy in front in ui.userHeader" -}}
{{- end -}}
{{- if and .existingSecret.name .userHeader -}}
{{- $wrong = append $wrong "ui.existingSecret.name and ui.userHeader are both set: keep one login" -}}
{{- end -}}
{{- if and (has "edit" .actions) (not .showValues) -}}
{{- $wrong = append $wrong "ui.actions contains edit, whose form shows the values of messages: set ui.showValues to true, or remove edit" -}}
{{- end -}}
{{- if and .enabled (not .serviceAccount.create) (not .serviceAccount.name) -}}
{{- $wrong = append $wrong "ui.serviceAccount.create is false: name an existing account in ui.serviceAccount.name" -}}
{{- end -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "these values cannot work:\n  - %s" (join "\n  - " $wrong)) -}}
{{- end -}}
{{- end -}}

{{- define "kstorm.validateTopology" -}}
{{- $wrong := list -}}
{{- if or (not .Values.topology) (not .Values.topologyName) (not .Values.components) -}}
{{- $wrong = append $wrong "topology, topologyName and components are required: write them with `kstorm values package.module:attribute`" -}}
{{- else -}}
{{- $spouts := 0 -}}
{{- range .Values.components -}}{{- if eq .kind "spout" -}}{{- $spouts = add1 $spouts -}}{{- end -}}{{- end -}}
{{- if not $spouts -}}{{- $wrong = append $wrong "components has no spout, so the topology would emit nothing: add one" -}}{{- end -}}
{{- end -}}
{{- if and .Values.topologyFiles .Values.existingTopologyConfigMap -}}
{{- $wrong = append $wrong "topologyFiles and existingTopologyConfigMap are both set: keep one, since both are mounted at /topology" -}}
{{- end -}}
{{- if and .Values.topologyFilter (not (regexMatch "[.]ya?ml$" .Values.topology)) -}}
{{- $wrong = append $wrong (printf "topologyFilter needs a topology in YAML, but topology is %s: remove topologyFilter" .Values.topology) -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{- define "kstorm.validateServers" -}}
{{- $wrong := list -}}
{{- $kafka := .Values.kafka -}}
{{- $external := or $kafka.bootstrapServers .Values.zookeeper.connect -}}
{{- if and .Values.dev.enabled $external -}}
{{- $wrong = append $wrong "dev.enabled brings its own Kafka and ZooKeeper, but kafka.bootstrapServers or zookeeper.connect is set too: keep one" -}}
{{- end -}}
{{- if and .Values.dev.sync (not .Values.dev.enabled) -}}
{{- $wrong = append $wrong "dev.sync allows code changes in running pods, for development only: set dev.enabled, or remove dev.sync" -}}
{{- end -}}
{{- if and .Values.dev.sync (or .Values.topologyFiles .Values.existingTopologyConfigMap) -}}
{{- $wrong = append $wrong "dev.sync copies the code of the images, but topologyFiles or existingTopologyConfigMap contains it: keep one" -}}
{{- end -}}
{{- if not .Values.dev.enabled -}}
{{- if not $kafka.bootstrapServers -}}{{- $wrong = append $wrong "Kafka is missing: set kafka.bootstrapServers, or dev.enabled to run one in the release" -}}{{- end -}}
{{- if not .Values.zookeeper.connect -}}{{- $wrong = append $wrong "ZooKeeper is missing: set zookeeper.connect, or dev.enabled to run one in the release" -}}{{- end -}}
{{- end -}}
{{- $secrets := or $kafka.existingSecret.name $kafka.tls.existingSecret .Values.zookeeper.existingSecret.name .Values.zookeeper.tls.existingSecret -}}
{{- if and .Values.dev.enabled (or $secrets .Values.zookeeper.tls.enabled (ne $kafka.securityProtocol "PLAINTEXT")) -}}
{{- $wrong = append $wrong "dev.enabled supports no TLS and no logins: remove securityProtocol, tls and the existingSecrets" -}}
{{- end -}}
{{- $sasl := hasPrefix "SASL_" $kafka.securityProtocol -}}
{{- if and $sasl (not $kafka.saslMechanism) -}}
{{- $wrong = append $wrong (printf "kafka.securityProtocol is %s, but kafka.saslMechanism is empty" $kafka.securityProtocol) -}}
{{- end -}}
{{- if and $kafka.saslMechanism (not $sasl) -}}
{{- $wrong = append $wrong (printf "kafka.saslMechanism is %s, but kafka.securityProtocol %s has no login" $kafka.saslMechanism $kafka.securityProtocol) -}}
{{- end -}}
{{- if and $sasl (has $kafka.saslMechanism (list "PLAIN" "SCRAM-SHA-256" "SCRAM-SHA-512")) (not $kafka.existingSecret.name) -}}
{{- $wrong = append $wrong (printf "kafka.saslMechanism %s needs a user and a password: name their Secret in kafka.existingSecret.name" $kafka.saslMechanism) -}}
{{- end -}}
{{- if and $kafka.tls.existingSecret (not (hasSuffix "SSL" $kafka.securityProtocol)) -}}
{{- $wrong = append $wrong (printf "kafka.tls.existingSecret is set, but kafka.securityProtocol %s has no TLS" $kafka.securityProtocol) -}}
{{- end -}}
{{- if and $kafka.tls.clientCertificate (not $kafka.tls.existingSecret) -}}
{{- $wrong = append $wrong "kafka.tls.clientCertificate needs kafka.tls.existingSecret, which contains the certificate" -}}
{{- end -}}
{{- with .Values.zookeeper.tls -}}
{{- if and .existingSecret (not .enabled) -}}
{{- $wrong = append $wrong "zookeeper.tls.existingSecret is set, but zookeeper.tls.enabled is not: set it, or remove both" -}}
{{- end -}}
{{- if and .clientCertificate (not .existingSecret) -}}
{{- $wrong = append $wrong "zookeeper.tls.clientCertificate needs zookeeper.tls.existingSecret, which contains the certificate" -}}
{{- end -}}
{{- if and .keyPasswordKey (not .clientCertificate) -}}
{{- $wrong = append $wrong "zookeeper.tls.keyPasswordKey is set, but no client certificate: set zookeeper.tls.clientCertificate, or remove keyPasswordKey" -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{- define "kstorm.validateWorkloads" -}}
{{- $wrong := list -}}
{{- $reserved := dict "acker" "the ackers" "prepare" "the Job of prepare" "topology" "the ConfigMap of topologyFiles" "test" "the test" -}}
{{- if .Values.dev.enabled -}}{{- $reserved = merge $reserved (dict "kafka" "Kafka" "zookeeper" "ZooKeeper") -}}{{- end -}}
{{- if .Values.ui.enabled -}}{{- $reserved = merge $reserved (dict "ui" "the web UI") -}}{{- end -}}
{{- if .Values.tracing.otlp.endpoint -}}{{- $reserved = merge $reserved (dict "traces" "the pod of tracing.otlp") -}}{{- end -}}
{{- if .Values.pipeline.enabled -}}{{- $reserved = merge $reserved (dict "pipeline" "the pipeline" "maintain" "the CronJob of pipeline.maintain" "audit" "the CronJob of pipeline.audit") -}}{{- end -}}
{{- $taken := dict -}}
{{- range $id, $_ := .Values.components -}}
{{- $name := include "kstorm.name" (dict "root" $ "of" $id) -}}
{{- $short := trimPrefix (printf "%s-" $.Release.Name) $name -}}
{{- if hasKey $reserved $short -}}
{{- $wrong = append $wrong (printf "components.%s would get the name %s, which is reserved for %s: give it another ID in the code" $id $name (get $reserved $short)) -}}
{{- end -}}
{{- if hasKey $taken $name -}}
{{- $wrong = append $wrong (printf "components.%s and components.%s would both get the name %s: give one another ID in the code" (get $taken $name) $id $name) -}}
{{- end -}}
{{- $_ := set $taken $name $id -}}
{{- end -}}
{{- range $name, $workload := include "kstorm.workloads" . | fromJson -}}
{{- with $workload -}}
{{- $where := eq .kind "acker" | ternary "ackers" (printf "components.%s" .id) -}}
{{- if gt (len $name) 52 -}}
{{- $wrong = append $wrong (printf "%s would get the name %s, which is longer than the 52 characters that pod names allow: use a shorter release name" $where $name) -}}
{{- end -}}
{{- if gt (int .replicas) (int .tasks) -}}
{{- $wrong = append $wrong (printf "%s has %d replicas for %d tasks, and the extra pods would be idle: reduce replicas" $where (int .replicas) (int .tasks)) -}}
{{- end -}}
{{- if and (lt (int .replicas) 1) (ne .kind "spout") -}}
{{- $wrong = append $wrong (printf "%s has no replicas for its %d tasks: give it 1 or more" $where (int .tasks)) -}}
{{- end -}}
{{- if and (eq .kind "spout") .stateful -}}
{{- $wrong = append $wrong (printf "%s is a spout and stateful: only bolts have state" $where) -}}
{{- end -}}
{{- if and .hpa.enabled .keda.enabled -}}
{{- $wrong = append $wrong (printf "%s has both hpa and keda, which would scale it against each other: keep one" $where) -}}
{{- end -}}
{{- range $kind, $auto := dict "hpa" .hpa "keda" .keda -}}
{{- if $auto.enabled -}}
{{- $least := int ($auto.minReplicas | default 1) -}}
{{- $most := int ($auto.maxReplicas | default $workload.tasks) -}}
{{- if gt $most (int $workload.tasks) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.%s.maxReplicas is %d, but it has %d tasks: reduce maxReplicas, since extra pods would be idle" $where $kind $most (int $workload.tasks)) -}}
{{- end -}}
{{- if gt $least $most -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.%s has minReplicas %d above maxReplicas %d: reduce minReplicas" $where $kind $least $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .keda.enabled (eq .kind "spout") (not (and .keda.topic .keda.consumerGroup)) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.keda needs topic and consumerGroup: the spout's source, and the ID of its SpoutConfig" $where) -}}
{{- end -}}
{{- if and .keda.enabled (eq .kind "bolt") (not .keda.topic) (not .keda.lagThreshold) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.keda needs topic and consumerGroup, of the source where messages wait. Or set lagThreshold to scale by the bolt's own input, which holds only tuples in flight" $where) -}}
{{- end -}}
{{- if and .keda.enabled (eq .kind "bolt") (ne (empty .keda.topic) (empty .keda.consumerGroup)) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.keda has only one of topic and consumerGroup: set both or neither" $where) -}}
{{- end -}}
{{- if and .keda.enabled $.Values.kafka.existingSecret.name (not $.Values.keda.authenticationRef) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.keda: KEDA needs a login because Kafka requires one: name a TriggerAuthentication in keda.authenticationRef" $where) -}}
{{- end -}}
{{- $sure := ternary (int (coalesce .hpa.minReplicas .keda.minReplicas 1)) (int .replicas) (or .hpa.enabled .keda.enabled) -}}
{{- if and .podDisruptionBudget.enabled (lt $sure 2) -}}
{{- $wrong = append $wrong (printf "%s has a podDisruptionBudget but may have only one replica: give it 2, or set podDisruptionBudget.enabled=false" $where) -}}
{{- end -}}
{{- if eq (include "kstorm.image" (dict "root" $ "image" .image) | splitList ":" | last) "latest" -}}
{{- $wrong = append $wrong (printf "%s has an image with the tag latest, which does not identify a version: set another tag or a digest" $where) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.ackers.tasks) .Values.ackers.replicas -}}
{{- $wrong = append $wrong (printf "ackers has %d replicas for 0 tasks: set replicas to 0 too" (int .Values.ackers.replicas)) -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{- define "kstorm.validateExtras" -}}
{{- $wrong := list -}}
{{- with .Values.test -}}
{{- if ne (empty .source) (empty .sink) -}}
{{- $wrong = append $wrong "test needs both source and sink: set both or neither" -}}
{{- end -}}
{{- if and .message (not .source) -}}
{{- $wrong = append $wrong "test.message is set, but test.source and test.sink are not: set them, or remove the message" -}}
{{- end -}}
{{- if and .message (contains "{marker}" .expect) (not (contains "{marker}" .message)) -}}
{{- $wrong = append $wrong "test.expect contains {marker}, but test.message does not: add it to the message" -}}
{{- end -}}
{{- end -}}
{{- with .Values.tracing.otlp -}}
{{- if and .existingSecret.name (not .endpoint) -}}
{{- $wrong = append $wrong "tracing.otlp.existingSecret is set, but tracing.otlp.endpoint is not: set the endpoint, or remove both" -}}
{{- end -}}
{{- if and .slowerThan .slowestShare -}}
{{- $wrong = append $wrong "tracing.otlp.slowerThan and tracing.otlp.slowestShare are both set: keep one" -}}
{{- end -}}
{{- if and .endpoint (not $.Values.ackers.tasks) -}}
{{- $wrong = append $wrong "tracing.otlp.endpoint is set, but without ackers (ackers.tasks) there are no traces: remove the endpoint" -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{- define "kstorm.validatePipeline" -}}
{{- $wrong := list -}}
{{- if not .Values.pipeline.topic -}}
{{- $wrong = append $wrong "pipeline.enabled needs pipeline.topic, the sink topic that it reads" -}}
{{- end -}}
{{- if and (ne .Values.kafka.securityProtocol "PLAINTEXT") (not (or .Values.pipeline.kafkaOptions .Values.pipeline.kafkaOptionsSecret.name)) -}}
{{- $wrong = append $wrong "pipeline: Kafka needs TLS or a login, and Spark's client has its own settings for them: set pipeline.kafkaOptions or pipeline.kafkaOptionsSecret" -}}
{{- end -}}
{{- with .Values.pipeline -}}
{{- range $name, $place := dict "tables" .tables "checkpoints" (.checkpoints | default .tables) -}}
{{- if not (or (contains ":/" $place) (hasPrefix "/data/" $place)) -}}
{{- $wrong = append $wrong (printf "pipeline.%s is %s, which pods cannot write: set a folder below /data, or a URL" $name $place) -}}
{{- end -}}
{{- end -}}
{{- range $name, $instead := dict "spark.master" "master" "spark.driver.memory" "driverMemory" "spark.executor.instances" "executors.instances" "spark.executor.cores" "executors.cores" "spark.executor.memory" "executors.memory" "spark.executor.memoryOverhead" "executors.memoryOverhead" -}}
{{- if hasKey $.Values.pipeline.sparkConf $name -}}
{{- $wrong = append $wrong (printf "pipeline.sparkConf contains %s: set pipeline.%s instead" $name $instead) -}}
{{- end -}}
{{- end -}}
{{- range $name, $strong := include "kstorm.strongEncryption" $ | fromJson -}}
{{- if ne (lower (toString (get $.Values.pipeline.sparkConf $name | default $strong))) (lower $strong) -}}
{{- $wrong = append $wrong (printf "pipeline.sparkConf contains %s, weaker than %s: remove it, or an attacker in the network could change the traffic between driver and executors" $name $strong) -}}
{{- end -}}
{{- end -}}
{{- if and .maintain.enabled (include "kstorm.pipelineHasVolume" $) (eq .storage.accessMode "ReadWriteOncePod") -}}
{{- $wrong = append $wrong "pipeline.storage.accessMode is ReadWriteOncePod, but the pod of pipeline.maintain writes tables too: set ReadWriteOnce, or pipeline.maintain.enabled=false" -}}
{{- end -}}
{{- if and .audit.enabled (include "kstorm.pipelineHasVolume" $) (eq .storage.accessMode "ReadWriteOncePod") -}}
{{- $wrong = append $wrong "pipeline.storage.accessMode is ReadWriteOncePod, but the pod of pipeline.audit writes tables too: set ReadWriteOnce, or pipeline.audit.enabled=false" -}}
{{- end -}}
{{- if not (include "kstorm.pipelineInPods" $) -}}
{{- if .sparkApplication.enabled -}}
{{- $wrong = append $wrong (printf "pipeline.sparkApplication.enabled runs driver and executors in pods, but pipeline.master is %s: set it to k8s://https://kubernetes.default.svc" .master) -}}
{{- end -}}
{{- else -}}
{{- if and (include "kstorm.pipelineHasVolume" $) (eq .storage.accessMode "ReadWriteOncePod") -}}
{{- $wrong = append $wrong "pipeline.storage.accessMode is ReadWriteOncePod, but the executors write tables too: set ReadWriteMany, or ReadWriteOnce to run all of them on one node" -}}
{{- end -}}
{{- if not (or .serviceAccount.create .serviceAccount.name) -}}
{{- $wrong = append $wrong "pipeline.serviceAccount is neither created nor named, but the driver needs an account that may create pods: set create or name" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}
