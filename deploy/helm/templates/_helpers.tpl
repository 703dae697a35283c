{{- define "chatmemory.selector" -}}
app.kubernetes.io/name: chatmemory
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "chatmemory.labels" -}}
{{ include "chatmemory.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What the pods of server, worker and migration have in common. */}}
{{- define "chatmemory.annotations" -}}
{{- with (.Values.pods | default dict).annotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "chatmemory.pod" -}}
{{- $pods := .Values.pods | default dict }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with get $pods $name }}
{{ $name }}: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: secrets
    secret: {secretName: {{ .Values.secret.name | quote }}, defaultMode: 0440}
  - name: tmp
    emptyDir: {}
{{- with $pods.volumes }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}

{{/* What their containers have in common. Settings stand here, not in a ConfigMap: a changed one rolls the pods, and the
migration's hook runs before there would be a ConfigMap. */}}
{{- define "chatmemory.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: secrets, mountPath: /run/secrets/chatmemory, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- with (.Values.pods | default dict).volumeMounts }}
{{ toYaml . | indent 2 }}
{{- end }}
env:
{{- range .Values.secret.keys }}
  - {name: {{ . }}_FILE, value: /run/secrets/chatmemory/{{ . }}}
{{- end }}
{{- $settings := .Values.settings | default dict }}
{{- if and .Values.ingress.host (not (hasKey $settings "DJANGO_ALLOWED_HOSTS")) }}
  - {name: DJANGO_ALLOWED_HOSTS, value: {{ .Values.ingress.host | quote }}}
{{- end }}
{{- range $name, $value := $settings }}
  - name: {{ $name }}
    value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end }}
