{{- /* Name of all resources: the release, and the chart if the release is called otherwise. 40 characters leave room for suffixes. */ -}}
{{- define "freshet.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- $name = .Values.fullnameOverride | default $name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]" $name) }}{{ fail (printf "names of Services begin with a letter, unlike %s: set fullnameOverride" $name) }}{{ end -}}
{{- $name -}}
{{- end }}

{{- /* Labels that select the pods of a component. They never change. Takes (list . COMPONENT). */ -}}
{{- define "freshet.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- /* Labels of the pods of a component, with more that cannot replace the selector's. Takes (list . COMPONENT LABELS). */ -}}
{{- define "freshet.podLabels" -}}
{{- merge (include "freshet.selector" . | fromYaml) (index . 2) | toYaml -}}
{{- end }}

{{- /* The extra volumes of pods, which must not have names of the chart's own. Takes (list VOLUMES WHERE). */ -}}
{{- define "freshet.extraVolumes" -}}
{{- range index . 0 }}
{{- if has .name (list "tls" "etcd-tls" "api-tls" "kafka-tls" "controlplane-ca") }}{{ fail (printf "%s: the name %s is the chart's own: rename the volume" (index $ 1) .name) }}{{ end }}
{{- end }}
{{- toYaml (index . 0) }}
{{- end }}

{{- /* Name of a zone's Deployment. Takes (list . ZONE). */ -}}
{{- define "freshet.agentName" -}}
{{- $name := include "freshet.name" (index . 0) -}}
{{- $zone := toString ((index . 1).name | default "") -}}
{{- empty $zone | ternary (printf "%s-agent" $name) (printf "%s-agent-%s" $name $zone) -}}
{{- end }}

{{- /* Labels of a resource. Takes (list . COMPONENT). */ -}}
{{- define "freshet.labels" -}}
{{- $ := index . 0 -}}
{{ include "freshet.selector" . }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "freshet.image" -}}
{{- $i := .Values.image -}}
{{- if not $i.repository -}}
{{- fail "image.repository is not set, and there is no default. Push an image with: make image PUSH=REGISTRY/freshet:TAG. Then add: --set image.repository=REGISTRY/freshet,image.tag=TAG" -}}
{{- end -}}
{{- include "freshet.reference" (list $i.repository ($i.tag | default .Chart.AppVersion) $i.digest) -}}
{{- end }}

{{- /* An image's name. Takes (list REPOSITORY TAG DIGEST). */ -}}
{{- define "freshet.reference" -}}
{{- if index . 2 }}{{ index . 0 }}@{{ index . 2 }}{{ else }}{{ index . 0 }}:{{ index . 1 }}{{ end -}}
{{- end }}

{{- /* Bytes of a quantity, such as 2Gi. */ -}}
{{- define "freshet.bytes" -}}
{{- $q := toString . }}{{ if kindIs "float64" . }}{{ $q = printf "%.0f" . }}{{ end -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $unit := regexFind "[KMGT]i$|[kMGT]$" $q -}}
{{- $number := trimSuffix $unit $q -}}
{{- if not (regexMatch "^[0-9]+([.][0-9]+)?$" $number) }}{{ fail (printf "%q is not a quantity of bytes such as 2Gi" $q) }}{{ end -}}
{{- mulf (float64 $number) (get $units $unit | default 1 | float64) | int64 -}}
{{- end }}

{{- /* GOMEMLIMIT as an entry of env; nothing without a memory limit. Takes (list RESOURCES WHERE). */ -}}
{{- define "freshet.gomemlimit" -}}
{{- $where := index . 1 -}}
{{- $request := dig "requests" "memory" "" (index . 0) -}}
{{- with dig "limits" "memory" "" (index . 0) }}
{{- $limit := include "freshet.bytes" . | int64 }}
{{- if $request }}{{ if gt (include "freshet.bytes" $request | int64) $limit }}{{ fail (printf "%s: the memory request %s is above the limit %s: set both" $where (toString $request) (toString .)) }}{{ end }}{{ end }}
- {name: GOMEMLIMIT, value: "{{ div (mul $limit 9) 10 }}"}
{{- end }}
{{- end }}

{{- /* Arguments --name=value from settings. Takes (dict "settings" MAP "taken" MAP "where" WHERE): taken holds flags that the chart sets, with what to do instead. */ -}}
{{- define "freshet.arguments" -}}
{{- $x := . -}}
{{- range $name, $value := .settings }}
{{- with get $x.taken $name }}{{ fail (printf "%s.%s is set by the chart: %s" $x.where $name .) }}{{ end }}
{{- $text := toString $value }}
{{- if kindIs "slice" $value }}{{ $text = join "," $value }}{{ end }}
{{- if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{ $text = printf "%d" (int64 $value) }}{{ end }}
- {{ printf "--%s=%s" $name $text | quote }}
{{- end }}
{{- end }}

{{- define "freshet.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.user }}
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "freshet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Where pods of a component may run. Takes (list . COMPONENT VALUES NODESELECTOR SPREAD): SPREAD are topology keys. */ -}}
{{- define "freshet.placement" -}}
{{- $ := index . 0 }}{{ $values := index . 2 }}
{{- with merge (dict) (index . 3) $values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
topologySpreadConstraints:
{{- $component := index . 1 }}
{{- range index . 4 }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "freshet.selector" (list $ $component) | fromYaml | toJson }}
{{- end }}
{{- end }}

{{- /* etcd's client addresses, comma-separated. */ -}}
{{- define "freshet.etcd" -}}
{{- if .Values.etcd.external -}}
{{- join "," .Values.etcd.external -}}
{{- else -}}
{{- $name := include "freshet.name" . -}}
{{- range $i := until (int .Values.etcd.replicas) -}}
{{- if $i }},{{ end }}{{ $name }}-etcd-{{ $i }}.{{ $name }}-etcd.{{ $.Release.Namespace }}.svc:2379
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Secret with the certificate of kafka, controlplane or etcd; nothing without TLS. Takes (list . PART). */ -}}
{{- define "freshet.tlsSecret" -}}
{{- $ := index . 0 }}{{ $part := index . 1 -}}
{{- $given := get (dict "kafka" $.Values.tls.kafkaSecret "controlplane" $.Values.tls.controlPlaneSecret "etcd" $.Values.tls.etcdSecret) $part -}}
{{- if and (eq $.Values.parts "tenant") (ne $part "kafka") }}{{ if eq $part "controlplane" }}{{ $.Values.tenant.caSecret }}{{ end -}}
{{- else if $given }}{{ $given }}{{ else if and $.Values.tls.issuer (not (and (eq $part "etcd") $.Values.etcd.external)) }}{{ include "freshet.name" $ }}-{{ $part }}-tls{{ end -}}
{{- end }}

{{- /* Zones that have a port of their own, as a JSON list of names: all of several zones. An agent has at most 64 ports: four, four for each of these zones, and four more for each if there are clients outside. */ -}}
{{- define "freshet.portZones" -}}
{{- $names := list }}{{ $most := .Values.external.enabled | ternary 7 15 -}}
{{- if gt (len .Values.zones) 1 }}{{ range .Values.zones }}{{ $names = append $names .name }}{{ end }}{{ end -}}
{{- if gt (len $names) $most }}{{ fail (printf "%d zones are more than the %d whose ports an agent has" (len $names) $most) }}{{ end -}}
{{- toJson $names -}}
{{- end }}

{{- /* The ports of the zones' listeners, as entries of the ports of a container or a Service. Takes (list . KIND): container, service, or bootstrap for one port per zone. */ -}}
{{- define "freshet.zonePorts" -}}
{{- $kind := index . 1 }}{{ $ports := list -}}
{{- range $i, $zone := include "freshet.portZones" (index . 0) | fromJsonArray -}}
{{- range $k := until (eq $kind "bootstrap" | ternary 1 4) -}}
{{- $name := printf "zone-%d%s" $i (empty $k | ternary "" (printf "-%d" $k)) }}{{ $port := add 9292 (mul 4 $i) $k -}}
{{- $ports = append $ports (eq $kind "container" | ternary (printf "- {name: %s, containerPort: %d}" $name $port) (printf "- {name: %s, port: %d, targetPort: %s}" $name $port $name)) -}}
{{- end -}}
{{- end -}}
{{- join "\n" $ports -}}
{{- end }}

{{- /*
The listeners for clients outside that the agents and the Service of a zone have, as a JSON list of names, with four ports each from the
first one on. There is one for each of several zones, so that clients are of the zone that they bootstrap at. Those of the zone itself
come first, then those of other zones in the order of zones: a zone added at the end moves no port. Takes (list . ZONE).
*/ -}}
{{- define "freshet.externalListeners" -}}
{{- $ := index . 0 }}{{ $own := (index . 1).name }}{{ $names := list -}}
{{- if $.Values.external.enabled -}}
{{- with include "freshet.portZones" $ | fromJsonArray -}}
{{- $names = list (printf "external_%s" $own) -}}
{{- range without . $own }}{{ $names = append $names (printf "external_%s" .) }}{{ end -}}
{{- else -}}
{{- $names = list "external" -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}

{{- /*
The addresses of all zones, as --shared-advertise takes them: of the zones' Services where a certificate has to hold the names that
clients connect to, since it cannot hold pods' addresses; and those for clients outside.
*/ -}}
{{- define "freshet.sharedAdvertise" -}}
{{- $external := .Values.external -}}
{{- $tls := include "freshet.tlsSecret" (list . "kafka") -}}
{{- if and $external.enabled (not .Values.zones) }}{{ fail "external.enabled needs zones: each has an address, as {name: a, external: {host: kafka-a.example.com}}" }}{{ end -}}
{{- if and $tls (not .Values.zones) }}{{ fail "tls.kafkaSecret and tls.issuer need zones: the certificate holds the names of their Services. For a single zone: [{name: a, nodeSelector: {}}]" }}{{ end -}}
{{- $list := list }}{{ $ports := dict }}{{ $addresses := dict -}}
{{- range $zone := .Values.zones -}}
{{- if $tls }}
{{- $host := printf "%s-%s.%s.svc" (include "freshet.name" $) $zone.name $.Release.Namespace }}
{{- $list = append $list (printf "/%s=%s:9092-9095" $zone.name $host) }}
{{- range $i, $of := include "freshet.portZones" $ | fromJsonArray }}
{{- $port := add 9292 (mul 4 $i) }}
{{- $list = append $list (printf "%s/%s=%s:%d-%d" $of $zone.name $host $port (add $port 3)) }}
{{- end }}
{{- end -}}
{{- if $external.enabled -}}
{{- $own := $zone.external | default dict -}}
{{- $listeners := include "freshet.externalListeners" (list $ $zone) | fromJsonArray -}}
{{- $count := mul 4 (len $listeners) | int -}}
{{- $first := 9192 -}}
{{- if eq $external.type "NodePort" -}}
{{- $first = required (printf "zone %s needs external.nodePort, the first of %d adjacent node ports" $zone.name $count) $own.nodePort | int -}}
{{- range $i := until $count }}
{{- $port := add $first $i | toString }}
{{- with get $ports $port }}{{ fail (printf "zones %s and %s share node port %s: external.nodePort is the first of %d" . $zone.name $port $count) }}{{ end }}
{{- $_ := set $ports $port $zone.name }}
{{- end -}}
{{- end -}}
{{- $host := required (printf "zone %s needs external.host, the address that clients outside connect to" $zone.name) $own.host -}}
{{- $address := printf "%s:%d" $host $first -}}
{{- with get $addresses $address }}{{ fail (printf "zones %s and %s have the external address %s: each needs its own" . $zone.name $address) }}{{ end -}}
{{- $_ := set $addresses $address $zone.name -}}
{{- range $i, $listener := $listeners }}
{{- $port := add $first (mul 4 $i) }}
{{- $list = append $list (printf "%s/%s=%s:%d-%d" $listener $zone.name $host $port (add $port 3)) }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join "," $list -}}
{{- end }}
