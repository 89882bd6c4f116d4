package io.freshet.testcontainers;

import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.model.ExposedPort;
import com.github.dockerjava.api.model.Ports;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Objects;
import java.util.function.IntSupplier;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * A broker for tests: {@code freshet dev}, which runs Freshet in one process and keeps its data in the container.
 *
 * <p>Kafka clients connect to the address that Metadata names, so the broker must know its port on the host when it
 * starts. Docker assigns a random port only at the start of the container. Therefore this class chooses a free port
 * before each start. If another process takes that port first, the start fails, and the next of {@value #ATTEMPTS}
 * attempts has another port.
 *
 * <p>Settings are environment variables: {@code withEnv("FRESHET_DEFAULT_PARTITIONS", "3")}.
 */
public final class FreshetContainer extends GenericContainer<FreshetContainer> {
    private static final int ATTEMPTS = 3;
    private static final int CLIENT_PORT = 9092;
    private static final int NETWORK_PORT = 9093;
    private static final int HTTP_PORT = 8080;

    private final IntSupplier freePorts;
    private int port;

    /** Returns a broker of an image such as {@code freshet:v1}, which {@code make image} writes. */
    public FreshetContainer(String image) {
        this(DockerImageName.parse(image));
    }

    /** Returns a broker of an image. */
    public FreshetContainer(DockerImageName image) {
        this(image, FreshetContainer::freePort);
    }

    FreshetContainer(DockerImageName image, IntSupplier freePorts) {
        super(image);
        this.freePorts = freePorts;
        addExposedPorts(HTTP_PORT);
        withStartupAttempts(ATTEMPTS);
        withCreateContainerCmdModifier(this::bindPort);
        waitingFor(Wait.forHttp("/readyz").forPort(HTTP_PORT).withStartupTimeout(Duration.ofSeconds(30)));
    }

    /** Returns the bootstrap address for clients outside of containers. */
    public String getBootstrapServers() {
        if (port == 0) {
            throw new IllegalStateException("the container has not started: call start() first");
        }
        return getHost() + ":" + port;
    }

    /** Returns the bootstrap address for clients in containers of the same {@link org.testcontainers.containers.Network}. */
    public String getNetworkBootstrapServers() {
        return getContainerInfo().getNetworkSettings().getNetworks().values().iterator().next().getIpAddress() + ":" + NETWORK_PORT;
    }

    /** Testcontainers calls bindPort before each attempt to start the container. */
    private void bindPort(CreateContainerCmd create) {
        port = freePorts.getAsInt();
        ExposedPort exposed = ExposedPort.tcp(CLIENT_PORT);
        Objects.requireNonNull(create.getHostConfig()).getPortBindings().bind(exposed, Ports.Binding.bindPort(port));
        create.withCmd(
                "dev",
                "--http-listen", ":" + HTTP_PORT,
                "--group-initial-rebalance-delay-ms", "0",
                "--kafka-listen", "client=:" + CLIENT_PORT + ",network=:" + NETWORK_PORT,
                "--advertise", "client=" + getHost() + ":" + port + ",network={ip}:" + NETWORK_PORT);
    }

    static int freePort() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
