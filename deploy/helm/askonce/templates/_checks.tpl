{{/* What a schema cannot see. */}}
{{- define "askonce.checks" -}}
{{- $env := .Values.secretEnv -}}
{{- if regexMatch "(?m)^\\s*(api_key|secret|seal_keys|tokens)\\s*=|\\[admin\\.tokens\\]" .Values.config -}}
{{- fail "config holds a secret: name a Secret in secretEnv instead, such as ASKONCE_UPSTREAM_API_KEY" -}}
{{- end -}}
{{- if not (get $env "ASKONCE_TENANTS__SECRET") -}}
{{- fail "secretEnv.ASKONCE_TENANTS__SECRET is missing: replicas without a common secret share nothing" -}}
{{- end -}}
{{- if not (or .Values.trial.valkey.enabled (get $env "ASKONCE_EXACT__STORE")) -}}
{{- fail "secretEnv.ASKONCE_EXACT__STORE is missing: replicas need a store that they share (or trial.valkey.enabled)" -}}
{{- end -}}
{{- if and .Values.admin.enabled (not (get $env "ASKONCE_ADMIN__TOKENS")) -}}
{{- fail "secretEnv.ASKONCE_ADMIN__TOKENS is missing: without it each pod makes a token that nobody knows" -}}
{{- end -}}
{{- with .Values.shutdown -}}
{{- if lt (int .graceSeconds) (add 20 (int .preStopSeconds)) -}}
{{- fail "shutdown.graceSeconds must be at least preStopSeconds + 20, or answers under way are cut off" -}}
{{- end -}}
{{- end -}}
{{- end -}}
