import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Apache Kafka's command-line tools, one after the other however many of these there are, each by its main method. What they log is
 * no output of theirs: it goes to the process's standard error.
 */
public final class Tools implements Client {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static Integer code; // what the tool ended with, null if its main method returned

    /** Takes the place of the end of the process. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    /** Writes to two streams. */
    private static final class Both extends OutputStream {
        private final OutputStream one;
        private final OutputStream two;

        Both(OutputStream one, OutputStream two) {
            this.one = one;
            this.two = two;
        }

        @Override
        public void write(int b) throws IOException {
            one.write(b);
            two.write(b);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            one.write(bytes, from, length);
            two.write(bytes, from, length);
        }
    }

    public Tools() {
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> {});
    }

    private static void end(int status) {
        if (code == null) { // a tool may catch what is thrown here, and end again
            code = status;
        }
        throw new Ended();
    }

    @Override
    public ObjectNode run(JsonNode job) throws Exception {
        synchronized (Tools.class) { // the process has one standard output
            return runAlone(job);
        }
    }

    private static ObjectNode runAlone(JsonNode job) throws Exception {
        List<String> args = new ArrayList<>();
        job.get("args").forEach(a -> args.add(a.asText()));
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream standard = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(output, true, StandardCharsets.UTF_8);
        PrintStream out = System.out;
        PrintStream err = System.err;
        System.setOut(new PrintStream(new Both(standard, output), true, StandardCharsets.UTF_8));
        System.setErr(stream);
        code = null;
        try {
            Class.forName(job.get("tool").asText()).getMethod("main", String[].class)
                    .invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException e) {
            if (code == null) {
                e.getCause().printStackTrace(stream);
                code = 1;
            }
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return JSON.createObjectNode()
                .put("code", code == null ? 0 : code)
                .put("out", standard.toString(StandardCharsets.UTF_8))
                .put("all", output.toString(StandardCharsets.UTF_8));
    }
}
