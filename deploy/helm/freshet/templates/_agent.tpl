{{- /* The pod of an agent. Takes (list . ZONE): a zone without name reads its name from the node. */ -}}
{{- define "freshet.agentPod" -}}
{{- $ := index . 0 }}{{ $zone := index . 1 }}{{ $name := include "freshet.name" $ }}{{ $values := $.Values.agents -}}
{{- $selector := dict }}{{ $spread := list "kubernetes.io/hostname" }}
{{- if $zone.name }}
{{- $selector = hasKey $zone "nodeSelector" | ternary $zone.nodeSelector (dict "topology.kubernetes.io/zone" $zone.name) }}
{{- else }}
{{- $spread = list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
{{- end -}}
{{- $external := include "freshet.externalListeners" (list $ $zone) | fromJsonArray -}}
{{- $kafkaTLS := include "freshet.tlsSecret" (list $ "kafka") }}{{ $controlPlaneTLS := include "freshet.tlsSecret" (list $ "controlplane") -}}
serviceAccountName: {{ $name }}-agent
automountServiceAccountToken: {{ empty $zone.name }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ add $values.drainSeconds $values.preStopSeconds 10 }}
{{- with $.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- include "freshet.placement" (list $ "agent" $values $selector $spread) }}
securityContext:
  {{- include "freshet.podSecurity" $ | nindent 2 }}
containers:
  - name: agent
    image: {{ include "freshet.image" $ }}
    imagePullPolicy: {{ $.Values.image.pullPolicy }}
    args:
      - agent
      {{- if ne $.Values.parts "tenant" }}
      - --virtual-cluster={{ $.Values.virtualCluster }}
      {{- end }}
      - {{ printf "--bucket=%s" (required "bucket is required, as s3://bucket/prefix?region=eu-central-1" $.Values.bucket) | quote }}
      {{- if eq $.Values.parts "tenant" }}
      {{- if not $.Values.tenant.controlPlanes }}{{ fail "parts: tenant needs tenant.controlPlanes, as [freshet-controlplane-0.example.com:443]" }}{{ end }}
      - --control-plane={{ join "," $.Values.tenant.controlPlanes }}
      - --control-plane-tls
      {{- else }}
      - --control-plane={{ $name }}-controlplane.{{ $.Release.Namespace }}.svc:7050
      {{- end }}
      - --kafka-listen=:9092-9095{{ range $i, $name := $external }},{{ $name }}=:{{ add 9192 (mul 4 $i) }}-{{ add 9195 (mul 4 $i) }}{{ end }}
      {{- with include "freshet.portZones" $ | fromJsonArray }}
      - --zone-listeners=9292={{ join "," . }}
      {{- if $external }}
      - --listener-zones={{ range $i, $of := . }}{{ if $i }},{{ end }}external_{{ $of }}={{ $of }}{{ end }}
      {{- end }}
      {{- end }}
      {{- if not $kafkaTLS }}
      - --advertise=$(POD_IP)
      {{- end }}
      {{- with include "freshet.sharedAdvertise" $ }}
      - --shared-advertise={{ . }}
      {{- end }}
      {{- if $kafkaTLS }}
      - --kafka-tls-cert=/etc/freshet/tls/kafka/tls.crt
      - --kafka-tls-key=/etc/freshet/tls/kafka/tls.key
      {{- end }}
      {{- if $controlPlaneTLS }}
      - --control-plane-tls-ca=/etc/freshet/tls/controlplane/ca.crt
      {{- end }}
      - --peer-listen=:7070
      - --peer-advertise=$(POD_IP)
      - --http-listen=:8080
      - --log-format=json
      - --drain-timeout={{ $values.drainSeconds }}s
      {{- if $zone.name }}
      - --zone={{ $zone.name }}
      {{- else }}
      - --zone=auto
      - --node-name=$(NODE_NAME)
      {{- with $.Values.defaultZone }}
      - --default-zone={{ . }}
      {{- end }}
      {{- end }}
      {{- with $.Values.clientZones }}
      - --client-zones={{ range $i, $z := . }}{{ if $i }},{{ end }}{{ $z.cidr }}={{ $z.zone }}{{ end }}
      {{- end }}
      {{- $taken := dict
        "virtual-cluster" "use virtualCluster"
        "bucket" "use bucket"
        "control-plane" "it follows from the release's name, or from tenant.controlPlanes"
        "control-plane-tls" "it follows from tls.controlPlaneSecret or parts"
        "kafka-listen" "use external"
        "zone-listeners" "use zones"
        "listener-zones" "use zones"
        "advertise" "use external"
        "shared-advertise" "use external"
        "peer-listen" "its port is fixed"
        "peer-advertise" "its port is fixed"
        "http-listen" "its port is fixed"
        "drain-timeout" "use agents.drainSeconds"
        "zone" "use zones"
        "node-name" "use zones"
        "default-zone" "use defaultZone"
        "client-zones" "use clientZones"
        "agent-key" "use keys"
        "kafka-tls-cert" "use tls.kafkaSecret"
        "kafka-tls-key" "use tls.kafkaSecret"
        "control-plane-tls-ca" "use tls.controlPlaneSecret or tenant.caSecret"
      }}
      {{- include "freshet.arguments" (dict "settings" $values.settings "taken" $taken "where" "agents.settings") | nindent 6 }}
    env:
      - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
      {{- if not $zone.name }}
      - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
      {{- end }}
      - {name: FRESHET_AGENT_KEY, valueFrom: {secretKeyRef: {name: {{ required "keys.secret is required: create it with kubectl create secret generic freshet --from-literal=agent-key=$(openssl rand -hex 32) --from-literal=operator-key=$(openssl rand -hex 32) --from-literal=read-only-key=$(openssl rand -hex 32)" $.Values.keys.secret }}, key: {{ $.Values.keys.agent }}}}}
      {{- include "freshet.gomemlimit" (list $values.resources "agents.resources") | nindent 6 }}
      {{- with $values.env }}{{ toYaml . | nindent 6 }}{{ end }}
    {{- with $values.envFrom }}
    envFrom: {{ toJson . }}
    {{- end }}
    ports:
      - {name: kafka, containerPort: 9092}
      - {name: kafka-1, containerPort: 9093}
      - {name: kafka-2, containerPort: 9094}
      - {name: kafka-3, containerPort: 9095}
      {{- range $i := until (mul 4 (len $external) | int) }}
      - {name: external{{ with $i }}-{{ . }}{{ end }}, containerPort: {{ add 9192 $i }}}
      {{- end }}
      {{- with include "freshet.zonePorts" (list $ "container") }}{{ . | nindent 6 }}{{ end }}
      - {name: peer, containerPort: 7070}
      - {name: http, containerPort: 8080}
    startupProbe:
      httpGet: {path: /livez, port: http}
      periodSeconds: 1
      failureThreshold: 60
    livenessProbe:
      httpGet: {path: /livez, port: http}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      httpGet: {path: /readyz, port: http}
      periodSeconds: 1
      timeoutSeconds: 2
      failureThreshold: 2
    {{- if $values.preStopSeconds }}
    lifecycle: {preStop: {sleep: {seconds: {{ $values.preStopSeconds }}}}}
    {{- end }}
    resources: {{ toJson $values.resources }}
    securityContext:
      {{- include "freshet.containerSecurity" $ | nindent 6 }}
    {{- if or $kafkaTLS $controlPlaneTLS $values.extraVolumeMounts }}
    volumeMounts:
      {{- with $values.extraVolumeMounts }}{{ toYaml . | nindent 6 }}{{ end }}
      {{- if $kafkaTLS }}
      - {name: kafka-tls, mountPath: /etc/freshet/tls/kafka, readOnly: true}
      {{- end }}
      {{- if $controlPlaneTLS }}
      - {name: controlplane-ca, mountPath: /etc/freshet/tls/controlplane, readOnly: true}
      {{- end }}
    {{- end }}
{{- if or $kafkaTLS $controlPlaneTLS $values.extraVolumes }}
volumes:
  {{- with $values.extraVolumes }}{{ include "freshet.extraVolumes" (list . "agents.extraVolumes") | nindent 2 }}{{ end }}
  {{- with $kafkaTLS }}
  - {name: kafka-tls, secret: {secretName: {{ . }}}}
  {{- end }}
  {{- with $controlPlaneTLS }}
  - {name: controlplane-ca, secret: {secretName: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}}
  {{- end }}
{{- end }}
{{- end }}
