@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_f32_gelu(@builtin(workgroup_id) v194: vec3<u32>, @builtin(num_workgroups) v196: vec3<u32>, @builtin(local_invocation_index) v203: u32) {
let v240 = &v9;
let v241 = &v5;
let v242 = &v1;
let v63 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v195 = v194[2];
let v103 = u32(v195);
let v197 = v196[1];
let v105 = u32(v197);
let v106 = v103 * v105;
let v198 = v196[0];
let v108 = u32(v198);
let v109 = v106 * v108;
let v199 = v194[1];
let v111 = u32(v199);
let v114 = v111 * v108;
let v115 = v109 + v114;
let v201 = v194[0];
let v117 = u32(v201);
let v118 = v115 + v117;
let v229 = u32(64);
let v121 = v118 * v229;
let v204 = v203;
let v123 = u32(v204);
let v124 = v121 + v123;
let v17 = v124 < v63;
if v17 {
let v19 = v124 / v14;
let v21 = v124 % v14;
let v22 = f32(0.0);
let v23 = vec4<f32>(v22);
var<function> v64_store: vec4<f32>;
let v64 = &v64_store;
*v64 = v23;
let v28 = &(*v241)[v13];
let v29 = *v28;
let v30 = u32(v29);
let v31 = v19 < v30;
if v31 {
let v32 = v19 * v14;
let v35 = v32 + v21;
let v39 = &(*v242)[v35];
let v40 = *v39;
let v43 = f32(1.0);
let v44 = vec4<f32>(v43);
let v45 = f32(0.7071067690849304);
let v46 = vec4<f32>(v45);
let v47 = f32(0.5);
let v48 = vec4<f32>(v47);
let v49 = v48 * v40;
let v50 = v40 * v46;
let v65 = abs(v50);
let v66 = f32(0.32759109139442444);
let v67 = vec4<f32>(v66);
let v68 = f32(0.2548295855522156);
let v69 = vec4<f32>(v68);
let v70 = f32(-0.2844967544078827);
let v71 = vec4<f32>(v70);
let v72 = f32(1.4214136600494385);
let v73 = vec4<f32>(v72);
let v74 = f32(-1.4531519412994385);
let v75 = vec4<f32>(v74);
let v76 = f32(1.0614054203033447);
let v77 = vec4<f32>(v76);
let v233 = fma(v67, v65, v44);
let v82 = v44 / v233;
let v234 = fma(v77, v82, v75);
let v235 = fma(v234, v82, v73);
let v236 = fma(v235, v82, v71);
let v237 = fma(v236, v82, v69);
let v91 = v237 * v82;
let v92 = -v65;
let v93 = v92 * v65;
let v94 = exp(v93);
let v238 = -v91;
let v239 = fma(v238, v94, v44);
let v99 = v50 < v23;
let v100 = -v239;
let v101 = select(v239, v100, v99);
let v52 = v44 + v101;
let v53 = v49 * v52;
*v64 = v53;

}
let v54 = *v64;
let v59 = &(*v240)[v124];
*v59 = v54;

}
return;

}
