// Package compose checks deploy/compose: its tests load compose.yaml as Docker Compose does, and compare the project with the program's
// settings and ports. `make lint-deploy` runs them. The module keeps the Compose loader out of the program's.
package compose
