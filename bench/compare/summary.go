package compare

import (
	"time"

	"github.com/freshet-io/freshet/bench/report"
)

// Summary is a comparison for programs.
type Summary struct {
	Date     time.Time        `json:"date"`
	Workload string           `json:"workload"`
	Machine  string           `json:"machine"`
	Versions []string         `json:"versions"`
	Command  string           `json:"command"`
	Setup    []string         `json:"setup"`
	Settings []report.Setting `json:"settings"`
	Rounds   []string         `json:"first_of_rounds"` // who ran first, by round
	Figures  []Figure         `json:"figures"`
	Warnings []string         `json:"warnings"`
}

// Figure is a figure of both systems over all rounds. Ratios are Freshet's by Kafka's, one for each round.
type Figure struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Kafka   Spread    `json:"kafka"`
	Freshet Spread    `json:"freshet"`
	Ratio   Spread    `json:"ratio"`
	Ratios  []float64 `json:"ratios"`
}

func summarize(f facts, pairs []pair, compared []row) Summary {
	s := Summary{
		Date: f.Date, Workload: f.Workload, Machine: f.Machine, Versions: f.Versions, Command: f.Command, Setup: f.Setup,
		Settings: f.Settings, Rounds: firsts(pairs), Figures: []Figure{}, Warnings: append([]string{}, warnings(pairs)...),
	}
	for _, r := range compared {
		s.Figures = append(s.Figures, Figure{Name: r.name, Unit: r.unit, Kafka: r.kafka, Freshet: r.freshet, Ratio: r.ratio, Ratios: r.ratios})
	}
	return s
}

// firsts tells who ran first in each round.
func firsts(pairs []pair) []string {
	first := make([]string, len(pairs))
	for i, p := range pairs {
		first[i] = nameFreshet
		if p.kafkaFirst {
			first[i] = nameKafka
		}
	}
	return first
}
