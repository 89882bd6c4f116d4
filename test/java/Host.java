import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;
import org.slf4j.LoggerFactory;

/**
 * Runs clients: a line of JSON in, a line of JSON out, until there is no more input. With the name of a class it is the one client
 * of its process, on standard input and output. Without a name it is a process for many, which cost less together: it prints the
 * loopback port at which it listens, and each connection to it is a client, whose class the first line names.
 */
public final class Host {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Host() {}

    public static void main(String[] args) throws Exception {
        LoggerFactory.getLogger(Host.class); // takes standard error as it is now: Tools puts another in its place
        if (args.length > 0) {
            serve(make(args[0]), reader(System.in), System.out);
            System.exit(0);
        }
        ServerSocket listener = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
        thread(() -> listen(listener));
        System.out.println(listener.getLocalPort());
        while (System.in.read() >= 0) {
            // the end of the input is the process's end
        }
        System.exit(0);
    }

    private static void thread(Runnable runs) {
        Thread t = new Thread(runs);
        t.setDaemon(true);
        t.start();
    }

    private static BufferedReader reader(InputStream in) {
        return new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
    }

    private static Client make(String name) throws ReflectiveOperationException {
        return (Client) Class.forName(name).getDeclaredConstructor().newInstance();
    }

    private static void listen(ServerSocket listener) {
        try {
            while (true) {
                Socket connection = listener.accept();
                thread(() -> converse(connection));
            }
        } catch (IOException e) {
            e.printStackTrace();
        }
    }

    private static void converse(Socket connection) {
        try (connection) {
            connection.setTcpNoDelay(true);
            BufferedReader in = reader(connection.getInputStream());
            serve(make(in.readLine()), in, connection.getOutputStream());
        } catch (IOException | ReflectiveOperationException e) {
            e.printStackTrace();
        }
    }

    /** Answers each line, and the end of the input only if the client does not end well. */
    private static void serve(Client client, BufferedReader in, OutputStream to) throws IOException {
        PrintStream out = new PrintStream(to, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer;
            try {
                answer = client.run(JSON.readTree(line));
            } catch (Exception e) {
                answer = JSON.createObjectNode().put("error", name(e));
            }
            out.println(JSON.writeValueAsString(answer));
        }
        try {
            client.end();
        } catch (Exception e) {
            out.println(JSON.createObjectNode().put("error", name(e)));
        }
    }

    /** What an error is called in answers. */
    static String name(Throwable e) {
        Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }
}
