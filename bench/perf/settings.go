package perf

// settings gives the configuration in the tool's terms. Durations that are no whole number of the tool's units, which the
// tool does not have, become fractions.
func (c *Config) settings(common map[string]string) Settings {
	return Settings{
		BootstrapServer: c.Bootstrap, CommonConfigs: orEmpty(common), TopicConfigs: orEmpty(c.TopicConfigs),
		ProducerConfigs: orEmpty(c.Producer), ConsumerConfigs: orEmpty(c.Consumer), Reset: c.Reset, TopicPrefix: c.TopicPrefix,
		Topics: c.Topics, PartitionsPerTopic: c.Partitions, ProducersPerTopic: c.Producers, GroupsPerTopic: c.Groups,
		ConsumersPerGroup: c.Consumers, AwaitTopicReady: c.AwaitReady, RecordSize: c.RecordSize, RandomRatio: c.RandomRatio,
		RandomPoolSize: c.RandomPoolSize, SendRate: c.SendRate, SendRateDuringCatchup: c.CatchupRate, MaxConsumeRecordRate: c.MaxConsume,
		BacklogDurationSeconds: c.Backlog.Seconds(), GroupStartDelaySeconds: c.GroupDelay.Seconds(),
		WarmupDurationMinutes: c.Warmup.Minutes(), ConsumersDuringCatchupPercentage: c.CatchupPercent,
		TestDurationMinutes: c.Test.Minutes(), ReportingIntervalSeconds: c.Interval.Seconds(),
		ValueSchema: orNull(c.ValueSchema), ValuesFile: orNull(c.ValuesFile), ReuseTopics: c.ReuseTopics,
		CatchupTopicPrefix: orNull(c.CatchupPrefix),
	}
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
