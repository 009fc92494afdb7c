enable f16;
var<workgroup> shared_v95: array<f32, 64>;
@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f16>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn output_bias_weights_f16(@builtin(local_invocation_index) v289: u32, @builtin(workgroup_id) v291: vec3<u32>, @builtin(num_workgroups) v293: vec3<u32>) {
let v312 = &v17;
let v313 = &v13;
let v314 = &v9;
let v315 = &v5;
let v316 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v292 = v291[2];
let v244 = u32(v292);
let v294 = v293[1];
let v246 = u32(v294);
let v247 = v244 * v246;
let v295 = v293[0];
let v249 = u32(v295);
let v250 = v247 * v249;
let v296 = v291[1];
let v252 = u32(v296);
let v255 = v252 * v249;
let v256 = v250 + v255;
let v298 = v291[0];
let v258 = u32(v298);
let v259 = v256 + v258;
let v311 = u32(64);
let v262 = v259 * v311;
let v300 = v289;
let v264 = u32(v300);
let v265 = v262 + v264;
let v26 = v265 / v311;
let v29 = v265 % v311;
let v33 = &(*v313)[v21];
let v34 = *v33;
let v35 = u32(v34);
let v36 = v26 < v35;
let v37 = f32(0.0);
let v38 = vec4<f32>(v37);
var<function> v220_store: vec4<f32>;
let v220 = &v220_store;
*v220 = v38;
if v36 {
let v43 = &(*v314)[v26];
let v44 = *v43;
let v45 = u32(v44);
let v46 = v45 / v22;
var<function> v221_store: u32;
let v221 = &v221_store;
*v221 = v3;
var<function> v222_store: u32;
let v222 = &v222_store;
*v222 = v21;
loop {
let v51 = *v221;
let v52 = u32(1);
let v53 = v51 + v52;
let v54 = *v222;
let v55 = v53 < v54;
if !v55 { break; }
let v57 = *v221;
let v58 = *v222;
let v59 = v57 + v58;
let v60 = u32(2);
let v61 = v59 / v60;
let v65 = &(*v313)[v61];
let v66 = *v65;
let v67 = u32(v66);
let v68 = v67 <= v26;
if v68 {
*v221 = v61;

} else {
*v222 = v61;

}

}
for(var v70: u32 = v29; v70 < v23; v70 += v311) {
let v72 = v46 * v23;
let v73 = v72 + v70;
let v77 = &(*v316)[v73];
let v78 = *v77;
let v79 = vec4<f32>(v78);
let v80 = *v221;
let v81 = v80 * v23;
let v82 = v81 + v70;
let v86 = &(*v315)[v82];
let v87 = *v86;
let v88 = vec4<f32>(v87);
let v89 = *v220;
let v90 = fma(v79, v88, v89);
*v220 = v90;

}

}
let v91 = *v220;
var<function> v242_store: f32;
let v242 = &v242_store;
*v242 = v37;
let v228 = v91[0];
let v229 = *v242;
let v230 = v229 + v228;
*v242 = v230;
let v231 = v91[1];
let v232 = *v242;
let v233 = v232 + v231;
*v242 = v233;
let v234 = v91[2];
let v235 = *v242;
let v236 = v235 + v234;
*v242 = v236;
let v237 = v91[3];
let v238 = *v242;
let v239 = v238 + v237;
*v242 = v239;
let v240 = *v242;
let v241 = &shared_v95;
let v102 = &(*v241)[v264];
*v102 = v240;
workgroupBarrier();
let v103 = u32(32);
let v104 = v264 < v103;
if v104 {
let v106 = v264 + v103;
let v110 = &(*v241)[v106];
let v111 = *v110;
let v116 = *v102;
let v117 = v116 + v111;
*v102 = v117;

}
workgroupBarrier();
let v118 = u32(16);
let v119 = v264 < v118;
if v119 {
let v121 = v264 + v118;
let v125 = &(*v241)[v121];
let v126 = *v125;
let v131 = *v102;
let v132 = v131 + v126;
*v102 = v132;

}
workgroupBarrier();
let v133 = u32(8);
let v134 = v264 < v133;
if v134 {
let v136 = v264 + v133;
let v140 = &(*v241)[v136];
let v141 = *v140;
let v146 = *v102;
let v147 = v146 + v141;
*v102 = v147;

}
workgroupBarrier();
let v148 = u32(4);
let v149 = v264 < v148;
if v149 {
let v151 = v264 + v148;
let v155 = &(*v241)[v151];
let v156 = *v155;
let v161 = *v102;
let v162 = v161 + v156;
*v102 = v162;

}
workgroupBarrier();
let v163 = u32(2);
let v164 = v264 < v163;
if v164 {
let v166 = v264 + v163;
let v170 = &(*v241)[v166];
let v171 = *v170;
let v176 = *v102;
let v177 = v176 + v171;
*v102 = v177;

}
workgroupBarrier();
let v178 = u32(1);
let v179 = v264 < v178;
if v179 {
let v181 = v264 + v178;
let v185 = &(*v241)[v181];
let v186 = *v185;
let v191 = *v102;
let v192 = v191 + v186;
*v102 = v192;

}
workgroupBarrier();
let v197 = &(*v241)[v3];
let v198 = *v197;
let v200 = v29 == v3;
let v201 = v200 && v36;
if v201 {
let v205 = &(*v314)[v26];
let v206 = *v205;
let v207 = u32(v206);
let v211 = &(*v312)[v207];
let v212 = *v211;
let v213 = v212 + v198;
*v211 = v213;

}
return;

}
