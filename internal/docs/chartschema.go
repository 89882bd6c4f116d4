package docs

// schema is a JSON schema of draft 7, the one that every Helm 3 and 4 reads.
type schema map[string]any

const (
	nameRule     = `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	zoneRule     = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	quantityRule = `^[0-9]+([.][0-9]+)?(m|k|Ki|Mi|Gi|Ti|M|G|T)?$`
	digestRule   = `^(sha256:[0-9a-f]{64})?$`
	cidrRule     = `^[0-9a-fA-F.:]+/[0-9]{1,3}$`
)

// chartTypes narrows what the defaults in values.yaml tell of a value's type. A key is a path, or *. and its end. Each empty map, empty
// list and null needs an entry, and each entry needs a value.
func chartTypes() map[string]schema {
	resources := closed(schema{"requests": freeMap(quantity()), "limits": freeMap(quantity())})
	return map[string]schema{
		"fullnameOverride":        pattern(`^([a-z]([-a-z0-9]*[a-z0-9])?)?$`),
		"image.pullPolicy":        oneOf("Always", "IfNotPresent", "Never"),
		"image.pullSecrets":       list(closed(schema{"name": pattern(nameRule)}, "name")),
		"user":                    {"type": []string{"integer", "null"}, "minimum": 1},
		"*.digest":                pattern(digestRule),
		"parts":                   oneOf("all", "provider", "tenant"),
		"provider.domain":         pattern(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`),
		"provider.signUp":         oneOf("closed", "invite-only", "open"),
		"tenant.controlPlanes":    list(pattern(`^[^:/]+:[0-9]+$`)),
		"virtualCluster":          pattern(`^[A-Za-z0-9._-]+$`),
		"zones":                   list(zoneType()),
		"defaultZone":             pattern(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`),
		"clientZones":             list(closed(schema{"cidr": pattern(cidrRule), "zone": pattern(zoneRule)}, "cidr", "zone")),
		"external.type":           oneOf("LoadBalancer", "NodePort"),
		"*.annotations":           freeMap(schema{"type": "string"}),
		"*.sourceRanges":          list(pattern(cidrRule)),
		"agents.replicas":         {"type": []string{"integer", "null"}, "minimum": 0},
		"agents.autoscaling.type": oneOf("", "hpa", "keda"),
		"*.minReplicas":           {"type": "integer", "minimum": 1},
		"*.maxReplicas":           {"type": "integer", "minimum": 1},
		"*.cpuUtilization":        {"type": "integer", "minimum": 1, "maximum": 100},
		"podMonitor.labels":       freeMap(schema{"type": "string"}),
		"podMonitor.interval":     pattern(`^([0-9]+(ms|s|m|h))*$`),
		"networkPolicy.from": list(closed(schema{
			"ipBlock": schema{"type": "object"}, "namespaceSelector": schema{"type": "object"}, "podSelector": schema{"type": "object"},
		})),
		"tls.issuer":                  issuerType(),
		"tls.names":                   list(schema{"type": "string", "minLength": 1}),
		"*.settings":                  freeMap(schema{"type": []string{"string", "number", "boolean", "array"}}),
		"*.envFrom":                   list(schema{"type": "object"}),
		"*.env":                       list(schema{"type": "object", "required": []string{"name"}}),
		"*.resources":                 resources,
		"*.extraVolumes":              list(schema{"type": "object", "required": []string{"name"}}),
		"*.extraVolumeMounts":         list(schema{"type": "object", "required": []string{"name", "mountPath"}}),
		"agents.minReadySeconds":      {"type": "integer", "minimum": 0, "maximum": 599},
		"agents.maxSurge":             {"type": []string{"integer", "string"}, "pattern": `^[1-9][0-9]*%$`, "minimum": 1},
		"*.podAnnotations":            freeMap(schema{"type": "string"}),
		"*.podLabels":                 freeMap(schema{"type": "string"}),
		"*.nodeSelector":              freeMap(schema{"type": "string"}),
		"*.tolerations":               list(schema{"type": "object"}),
		"*.affinity":                  {"type": "object"},
		"etcd.external":               list(pattern(`^[^:/]+:[0-9]+$`)),
		"etcd.replicas":               oneOf(1, 3, 5),
		"etcd.clusterState":           oneOf("new", "existing"),
		"etcd.storage.size":           quantity(),
		"*.className":                 {"type": []string{"string", "null"}},
		"controlPlane.replicas":       {"type": "integer", "minimum": 1},
		"*.serviceAccountAnnotations": freeMap(schema{"type": "string"}),
	}
}

func zoneType() schema {
	return closed(schema{
		"name":         pattern(zoneRule),
		"nodeSelector": freeMap(schema{"type": "string"}),
		"replicas":     schema{"type": "integer", "minimum": 0},
		"external": closed(schema{
			"host":        pattern(`^[^:]+$`),
			"nodePort":    schema{"type": "integer", "minimum": 1, "maximum": 65532},
			"annotations": freeMap(schema{"type": "string"}),
		}),
	}, "name")
}

// issuerType is a reference to an issuer, or empty.
func issuerType() schema {
	s := closed(schema{"name": schema{"type": "string", "minLength": 1}, "kind": schema{"type": "string"}, "group": schema{"type": "string"}})
	s["dependencies"] = schema{"kind": []string{"name"}, "group": []string{"name"}}
	return s
}

// closed is an object of these properties and no other.
func closed(properties schema, required ...string) schema {
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func freeMap(values schema) schema { return schema{"type": "object", "additionalProperties": values} }

func list(items schema) schema { return schema{"type": "array", "items": items} }

func pattern(p string) schema { return schema{"type": "string", "pattern": p} }

func oneOf(values ...any) schema { return schema{"enum": values} }

func quantity() schema {
	return schema{"type": []string{"string", "number"}, "pattern": quantityRule, "minimum": 0}
}
